"""Who plays whom: matchmaking, pairings, tournaments."""
