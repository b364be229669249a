"""Imported by Python before a program begins, in its children too: see taken_away.py."""

from platforms.forms import taken_away

taken_away.macos()
