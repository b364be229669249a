"""Clocks, decision timers and the load of the host."""
