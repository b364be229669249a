"""S28: abort, with a core file if one can be had."""

from __future__ import annotations

import os
import resource

from attacks.guard import insist, say

insist()
os.chdir("/tmp")
say({"core_limit": resource.getrlimit(resource.RLIMIT_CORE)})
os.abort()
