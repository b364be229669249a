"""Reports of a ladder: standings, bots, games, seasons, tournaments."""
