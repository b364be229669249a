"""A person at a page in the browser: opens it, and says in the terminal where it is.

Invariant: the page is there as long as the games, and after them until it is closed, for a minute
or until Ctrl-C.
"""

from __future__ import annotations

import threading
import webbrowser
from contextlib import suppress
from typing import Self

import click

from deepsea_referee.system import SYSTEM
from deepsea_referee.timing.clock import SystemClock
from deepsea_web.play.seat import PageSeat
from deepsea_web.play.server import PlayServer


class BrowserPerson(PageSeat):
    """The person, whose page is served while the context lasts."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self._server = PlayServer(self, SystemClock())

    def __enter__(self) -> Self:
        address = self._server.address
        click.echo(f"play at {address}\nclosing the page or Ctrl-C ends the game", err=True)
        # A browser in the terminal would hide this; and some return when their window is closed.
        if SYSTEM.opens_browsers():
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.interrupted:
            with suppress(KeyboardInterrupt):
                self._server.wait()
        self._server.close()
