"""Single keys from the terminal: here alone is chosen how they are read.

`keys()` is a context manager that gives a function: it waits that many seconds, or for ever, for a
key; "" if none came. The terminal's state is restored afterwards.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    from deepsea_cli.windows_keys import keys as keys
else:
    from deepsea_cli.posix_keys import keys as keys
