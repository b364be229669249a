"""P13: methods that are not there, and every way to write a path."""

from __future__ import annotations

from attacks.guard import insist, say
from attacks.raw import Bot, Connection, hello

PATHS = [
    "/deepsea.play.v1.PlayService/Win",
    "/deepsea.play.v1.PlayService/play",
    "/deepsea.play.v1.PlayService/",
    "/deepsea.play.v1.PlayService/Play/",
    "/PlayService/Play",
    "/",
    "//",
    "/deepsea.play.v1.PlayService/Play?seat=0",
    "/" + "x" * 4000,
    "/deepsea.play.v1.Admin/Void",
    "/grpc.channelz.v1.Channelz/GetServers",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
]

insist()
ended = {}
bot = Bot()
for path in PATHS:
    door = Connection()
    door.open(1, path)
    door.message(hello())
    ended[path[:40]] = door.end_of()
    door.socket.close()
say({"ended": sorted(set(ended.values()))})
bot.play()
