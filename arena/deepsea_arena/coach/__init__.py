"""Analyses of games: how they are made and how they are written."""
