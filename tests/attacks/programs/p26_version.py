"""P26: other versions of the protocol, then the right one: the token is still good."""

from __future__ import annotations

from attacks.guard import insist, say
from attacks.raw import Bot, Connection, hello

insist()
ended = []
for version in (0, 2, 1000, 2**32 - 1):
    door = Connection()
    door.open()
    door.message(hello(version=version))
    ended.append([door.end_of(), door.details.get(1, "")])
    door.socket.close()
say({"versions": ended})
Bot().play()
