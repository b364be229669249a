"""S16: every way to somebody else's socket. Arguments: port, abstract name, path. Loopback only."""

from __future__ import annotations

import os
import socket
import sys

from attacks.guard import run, tried

FAMILIES = {"netlink": 16, "packet": 17, "bluetooth": 31, "alg": 38, "vsock": 40, "xdp": 44}


def connect(family: int, address: object) -> str:
    """The error's name, "" if it connected."""

    def action() -> None:
        with socket.socket(family, socket.SOCK_STREAM) as client:
            client.settimeout(2)
            client.connect(address)  # type: ignore[arg-type]

    return tried(action)


def attack() -> dict[str, object]:
    port, abstract, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    own = os.environ["DEEPSEA_ADDRESS"].removeprefix("unix:")
    report: dict[str, object] = {
        "ipv4": connect(socket.AF_INET, ("127.0.0.1", port)),
        "ipv6": connect(socket.AF_INET6, ("::1", port)),
        "udp": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)),
        "raw": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)),
        "abstract": connect(socket.AF_UNIX, "\0" + abstract),
        "others_path": connect(socket.AF_UNIX, path),
        "own_path": connect(socket.AF_UNIX, own),
    }
    for name, family in FAMILIES.items():
        report[name] = tried(socket.socket, family, socket.SOCK_RAW)
    return report


run(attack)
