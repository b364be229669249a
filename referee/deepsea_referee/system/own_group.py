"""What keeps a child process out of this one's group, where there are no sessions."""

from __future__ import annotations

import subprocess
from typing import Final

OWN_GROUP_FLAGS: Final[int] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0) | getattr(
    subprocess, "CREATE_NO_WINDOW", 0
)
"""On Windows neither Ctrl-C nor a closed window reaches such a process; elsewhere 0, and
`start_new_session` does that."""
