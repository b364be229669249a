"""The layer below pages: access, the gateway, the HTTP API, connections, the runner.

Invariant: nothing here decides a caller's rights; `LadderService` does.
"""
