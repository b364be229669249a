"""Isolation of bots: their processes are started, confined, measured and ended here.

Start reading at interface.py. plain_process.py is the level `process`, bubblewrap.py the level
`sandbox`; `probe.choose` says which of them works here. Nothing else of the referee is imported.
"""
