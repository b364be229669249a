"""The ladder from afar: its HTTP API, and how it is reached.

Invariant: nothing here decides who may do what; `LadderService` does.
"""
