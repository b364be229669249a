"""Submits a bot to a ladder on another machine, also over a connection that breaks.

Invariant: one submission, however often the connection breaks: an upload is repeated with the same
key until the ladder has said that it has it, and from then on it is only followed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Final

from deepsea_cli.remote.answers import Step, Submission
from deepsea_cli.remote.client import Client
from deepsea_cli.remote.errors import BadServer, Refused, Unreachable
from deepsea_cli.remote.transport import Document, Sent

RETRIES: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 30.0)
"""Seconds before each further attempt; after news they begin anew."""
LONGEST_WAIT: Final = 60
"""Seconds that a ladder may ask for."""
MOST_BREAKS: Final = 100
"""Broken connections after which it is given up, whatever came between."""


def header_of(bot: str, archive: bytes, key: str) -> Document:
    """The header of an upload."""
    sha256 = hashlib.sha256(archive).hexdigest()
    return {"bot": bot, "size": len(archive), "sha256": sha256, "key": key}


def submit(
    client: Client,
    header: Document,
    archive: bytes,
    *,
    sent: Sent,
    news: Callable[[Submission], object],
    broken: Callable[[Exception], object],
    pause: Callable[[float], object],
) -> Submission:
    """The submission in its last state.

    sent    called with the number of bytes that were sent since the last call
    news    called with each state
    broken  called when the connection broke, before `pause`
    pause   waits so many seconds

    Raises Refused if it is not taken, Unreachable if the ladder does not come back.
    """
    found: Submission | None = None
    waits = iter(RETRIES)
    for _ in range(MOST_BREAKS):
        try:
            for step in _steps(client, found, header, archive, sent):
                found, waits = step.submission, iter(RETRIES)
                news(found)
                if found.is_final:
                    return found
            trouble: Exception = Unreachable(f"{client.address.url} ended the answer too early")
        except Unreachable as error:
            trouble = error
        except Refused as error:
            # Of a submission that the ladder has, only that it is asked for too often.
            if found is None or error.name != "RESOURCE_EXHAUSTED":
                raise
            trouble = error
        wait = next(waits, None)
        if wait is None:
            raise trouble
        broken(trouble)
        asked = getattr(trouble, "retry_after", None) or 0
        pause(max(wait, min(asked, LONGEST_WAIT)))
    raise BadServer(f"the connection to {client.address.url} breaks again and again")


def _steps(
    client: Client, found: Submission | None, header: Document, archive: bytes, sent: Sent
) -> Iterator[Step]:
    if found is None:
        return client.upload(Step, header, archive, sent)
    return client.follow("WatchSubmission", Step, id=found.id)
