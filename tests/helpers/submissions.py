"""Submissions for tests: authors with ids, archives, uploads."""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import select

from deepsea_bundle.archive import pack
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.model import NewSubmission, Submission
from deepsea_ladder.store import Store, schema

from . import ladder

LIMITS = RemoteLimits()


def an_author(store: Store, name: str) -> int:
    """The id of an author, who has a bot of that name unless there is one."""
    table = schema.authors
    query = select(table.c.id).where(table.c.name == name)
    with store.database.read() as connection:
        found = connection.execute(query).scalar()
    if found is None:
        ladder.submit(store, f"bot-of-{name}", author=name)
        return an_author(store, name)
    return int(found)


def zipped(text: str, name: str = "") -> bytes:
    """The zip of a bot whose only peculiarity is a text."""
    files = dict(ladder.a_bundle(text).files)
    if name:
        files["bot.toml"] += f'name = "{name}"\n'.encode()
    return pack(files)


def new(author_id: int, content: bytes, key: str = "", bot: str = "", **more: Any) -> NewSubmission:
    """What is uploaded; the key is that of the content unless one is given."""
    digest = hashlib.sha256(content).hexdigest()
    return NewSubmission(
        author_id=author_id,
        bot=bot,
        key=key or digest[:16],
        size=len(content),
        sha256=digest,
        **more,
    )


def add(
    store: Store,
    author_id: int,
    text: str,
    bot: str = "mine",
    limits: RemoteLimits = LIMITS,
    **more: Any,
) -> Submission:
    """Submit a bot of a text."""
    content = zipped(text)
    submission = new(author_id, content, bot=bot, **more)
    return store.submissions.add(submission, [content[:100], content[100:]], limits)
