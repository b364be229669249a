"""How a bot's process is started, confined, measured and ended.

Start reading at contract.py. `plain` is the level `process`, `bwrap` the level `sandbox`;
`probe.choose` says which of them works here.
"""
