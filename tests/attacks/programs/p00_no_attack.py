"""No attack: default actions over a connection made by hand."""

from __future__ import annotations

from attacks.guard import insist, say
from attacks.raw import Bot

insist()
say({"ended": Bot().play()})
