"""S11: binary, terminal escapes, invalid UTF-8, no line end."""

from __future__ import annotations

import os

from attacks.guard import insist

insist()
os.write(1, b"\x1b[2J\x1b]0;title\x07\x00\xff\xfe\x9b31m\xe2\x80\xaeright to left\rback")
