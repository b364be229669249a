"""A ladder on another machine: its address, who one is there, and what is asked of it.

Invariant: a server is a stranger. What it sends is bounded, checked and escaped, and it gets a
token only over TLS or on this machine.
"""
