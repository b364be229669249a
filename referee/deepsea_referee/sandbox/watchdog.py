"""The watchdog: one thread that checks every running bot every GAP_S.

Invariants: it is the only thread of this package; it starts with the first bot and ends with the
last. A check must be short and must not raise for a bot that has just exited.
Without a control group these checks limit a bot's memory, so a bot may be over its limit
for GAP_S.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

GAP_S = 0.1

Look = Callable[[], None]


class Watchdog:
    """Calls every registered check periodically."""

    def __init__(self, gap_s: float = GAP_S) -> None:
        self._gap_s = gap_s
        self._lock = threading.Lock()
        self._looks: list[Look] = []
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, look: Look) -> None:
        """Call `look` every GAP_S from now on."""
        with self._lock:
            self._looks.append(look)
            # A thread does not survive a fork of the process.
            if self._thread is None or not self._thread.is_alive():
                self._changed = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, name="deepsea-watchdog", daemon=True
                )
                self._thread.start()

    def forget(self, look: Look) -> None:
        """Stop calling `look`; a call that is under way may still finish."""
        with self._lock:
            if look in self._looks:
                self._looks.remove(look)
            if not self._looks:
                self._thread = None
                self._changed.set()

    def _run(self) -> None:
        ended = self._changed
        while not ended.wait(self._gap_s):
            with self._lock:
                looks = list(self._looks)
            for look in looks:
                look()


_watchdog = Watchdog()
watch = _watchdog.watch
forget = _watchdog.forget
