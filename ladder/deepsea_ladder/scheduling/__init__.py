"""Scheduling: matchmaking, pairing, tournaments."""
