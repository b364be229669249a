"""The environment variables with which a referee starts a bot."""

from typing import Final

ADDRESS: Final = "DEEPSEA_ADDRESS"
TOKEN: Final = "DEEPSEA_TOKEN"
"""Sent once, in Hello."""
