"""Opening a page in the user's browser."""

from __future__ import annotations

import webbrowser

from deepsea_referee.errors import UserError


def open_in_browser(url: str) -> None:
    """Open a page; raises UserError with its address if there is no browser."""
    if not webbrowser.open(url):
        raise UserError(f"there is no browser to open here; open {url} in one of your own")
