"""Clocks, decision timers and the host's load."""
