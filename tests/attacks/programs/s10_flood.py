"""S10: print without end (here: 2 MiB) without a line end."""

from __future__ import annotations

import os

from attacks.guard import insist

insist()
for _ in range(32):
    os.write(1, b"flood" * 13_107)
