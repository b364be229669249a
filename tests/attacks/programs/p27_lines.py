"""P27: a bot that speaks lines, and at its third request writes or does something else."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import sys

from attacks.guard import LONGEST_S, insist, wait_to_be_ended

insist()
signal.alarm(LONGEST_S)


def say(line: bytes, end: bytes = b"\n") -> None:
    with contextlib.suppress(BrokenPipeError):
        data = line + end
        while data:
            data = data[os.write(1, data) :]


def answer(request: int, action: str) -> bytes:
    return json.dumps({"type": "answer", "id": request, "action": action}).encode()


say(b'{"type":"ready"}')
requests = (message for message in map(json.loads, sys.stdin) if message["type"] == "decide")
for _ in range(2):
    first = next(requests)
    say(answer(first["id"], first["legal"][0]))
third = next(requests)
request, action = third["id"], third["legal"][0]
match sys.argv[1]:
    case "no_end":
        say(answer(request, action), b"")
    case "half":
        say(b"{" + b" " * 65_535, b"")
    case "mebibyte":
        say(b" " * (1 << 20) + answer(request, action))
    case "nul":
        say(b"\0" + answer(request, action))
    case "words":
        say(b"take, please")
    case "nested":
        say(b"[" * 60_000)
    case "ready":
        say(b'{"type":"ready"}')
    case "advance":
        say(answer(request + 1, action))
    case "stale":
        say(answer(request - 1, action))
    case "twice":
        say(answer(request, action) + b"\n" + answer(request, action))
    case "illegal":
        for message in itertools.chain([third], requests):
            say(answer(message["id"], "\x1b[2J" * 100))
    case "raises":
        for message in itertools.chain([third], requests):
            say(json.dumps({"type": "answer", "id": message["id"], "error": "a\nb"}).encode())
    case "flood":
        while True:
            os.write(1, b"y\n" * 32_768)
    case "flood_without_end":
        while True:
            os.write(1, b"y" * 65_536)
    case "stdin":
        os.close(0)
    case "stdout":
        os.close(1)
    case "exits":
        os._exit(3)
wait_to_be_ended()
