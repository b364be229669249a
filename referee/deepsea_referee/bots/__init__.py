"""Bots as programs: found, started, kept running, and their output."""
