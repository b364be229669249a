"""How a worker connects to this process where descriptors cannot be passed on: over loopback.

Invariants: the address and a one-use token go through the worker's stdin, which nobody else reads;
a connection without the token is closed; a worker that ends before it connects raises OSError.
"""

from __future__ import annotations

import hmac
import socket
import subprocess
from multiprocessing.connection import Connection
from typing import Final

from deepsea_sdk.entropy import fresh_token

LOOPBACK: Final = "127.0.0.1"
_LOOK_S: Final = 0.5
"""Interval of the looks whether a worker that has not connected still runs."""
_TOKEN_S: Final = 10.0

BEFORE_MAIN: Final = """
import socket, sys
port, token = sys.stdin.readline().split()
link = socket.create_connection(("127.0.0.1", int(port)))
link.sendall(token.encode())
from multiprocessing.connection import Connection
connection = Connection(link.detach())
"""


def listen() -> socket.socket:
    """Listen on a free port of this machine alone."""
    listening = socket.create_server((LOOPBACK, 0))
    listening.settimeout(_LOOK_S)
    return listening


def accept(listening: socket.socket, process: subprocess.Popen[bytes]) -> Connection:
    """Tell the process where to connect, and wait until it has."""
    token = fresh_token().encode()
    assert process.stdin is not None
    try:
        process.stdin.write(b"%d %s\n" % (listening.getsockname()[1], token))
        process.stdin.close()
        while True:
            try:
                link, _ = listening.accept()
            except TimeoutError:
                if process.poll() is not None:
                    raise OSError(
                        f"a worker exited with status {process.returncode} as it started"
                    ) from None
                continue
            if hmac.compare_digest(_received(link, len(token)), token):
                link.settimeout(None)
                return Connection(link.detach())
            link.close()
    except OSError:
        process.kill()
        process.wait()
        raise


def _received(link: socket.socket, count: int) -> bytes:
    link.settimeout(_TOKEN_S)
    data = b""
    try:
        while len(data) < count and (more := link.recv(count - len(data))):
            data += more
    except OSError:
        return b""
    return data
