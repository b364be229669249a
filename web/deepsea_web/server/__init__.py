"""What lies below pages: who is answered, the gateway, the HTTP API, connections, the runner.

Invariant: nothing here decides who may do what; `LadderService` does.
"""
