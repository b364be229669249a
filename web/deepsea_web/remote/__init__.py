"""The ladder from afar: gRPC and an HTTP API over the service, and how both are reached.

Invariant: nothing here decides who may do what; `LadderService` does.
"""
