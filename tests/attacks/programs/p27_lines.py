"""P27: a bot that speaks lines, and at its third request writes or does something else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

from attacks.guard import LONGEST_S, insist, wait_to_be_ended

insist()
signal.alarm(LONGEST_S)


def say(line: bytes) -> None:
    with contextlib.suppress(BrokenPipeError):
        data = line + b"\n"
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
    case "mebibyte":
        say(b" " * (1 << 20) + answer(request, action))
    case "twice":
        say(answer(request, action) + b"\n" + answer(request, action))
    case "flood":
        while True:
            os.write(1, b"y\n" * 32_768)
    case "stdin":
        os.close(0)
    case "exits":
        os._exit(3)
wait_to_be_ended()
