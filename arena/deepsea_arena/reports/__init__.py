"""What a ladder shows: standings, bots, games, seasons, tournaments."""
