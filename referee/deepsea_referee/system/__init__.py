"""What differs between operating systems, behind one interface; this module alone chooses.

Invariants: the choice is made by what Python offers here, once, when this is imported; Linux's form
(linux.py) uses what only Linux has, the portable form (portable.py) runs on macOS and Windows, and
on Linux too, which is how it is tested. Nobody else asks which system this is.
"""

from __future__ import annotations

import os
import sys

from deepsea_referee.system.interface import System

_CALLS = ("pidfd_open", "pipe2", "sched_getaffinity")
"""What Linux's form cannot do without; some builds of Python lack them."""


def _choose() -> System:
    if sys.platform == "linux" and all(hasattr(os, name) for name in _CALLS):
        from deepsea_referee.system.linux import LinuxSystem

        return LinuxSystem()
    from deepsea_referee.system.portable import PortableSystem

    return PortableSystem()


SYSTEM = _choose()
