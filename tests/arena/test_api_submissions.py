"""What an author does from afar with own bots; nothing of another's in any way."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import pytest
from msgspec import structs
from sqlalchemy import select

from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import LadderService
from deepsea_arena.api.submissions import Archive
from deepsea_ladder.accounts import Caller, Role, Scope
from deepsea_ladder.limits import MIB
from deepsea_ladder.model import BotState, LadderBot, SeatLog, SubmissionRefusal
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import Store, bots, schema
from deepsea_ladder.store.bots import _bot_of_row
from helpers import ladder
from helpers.submissions import LIMITS, an_author, zipped

KEY = "a-key-of-mine"
BUNDLE = replace(ladder.a_bundle("one"), name="mine")


@pytest.fixture
def service(played: Store) -> LadderService:
    """A ladder with four bots and eight games; strangers can reach it."""
    return LadderService(played, entropy=lambda: b"")


def author(service: LadderService, name: str) -> LocalLadder:
    """The ladder for an author with the usual token."""
    number, scopes = an_author(service.store, name), frozenset((Scope.READ, Scope.SUBMIT))
    caller = Caller(author=name, author_id=number, role=Role.AUTHOR, scopes=scopes)
    return LocalLadder(service, caller)


@pytest.fixture
def anna(service: LadderService) -> LocalLadder:
    """The author of anna."""
    return author(service, "anna-senior")


@pytest.fixture
def ben(service: LadderService) -> LocalLadder:
    """The author of ben, who crashed in two games."""
    return author(service, "ben-senior")


def upload(own: LocalLadder, content: bytes, key: str = KEY, bot: str = "") -> Iterator[Any]:
    """Upload an archive; what Submit answers."""
    archive = Archive.of(content, bot, key, 1000)
    own.is_known(archive)
    answers: Iterator[Any] = own.submit(archive)
    return answers


def states(answers: Iterator[Any]) -> Iterator[tuple[str, int, int] | None]:
    for answer in answers:
        yield None if answer is None else (answer.state, answer.ahead, answer.games)


def refused(kind: RefusalKind, call: Callable[[], object]) -> str:
    with pytest.raises(ApiError) as error:
        call()
    assert error.value.kind is kind
    return str(error.value)


def test_a_submission_is_followed_to_its_verdict(service: LadderService, anna: LocalLadder) -> None:
    seen = states(upload(anna, zipped("one"), bot="mine"))
    assert list(islice(seen, 3)) == [("queued", 0, 0), None, None]
    submissions = service.store.submissions
    lease = submissions.claim("runner", 60)
    assert lease is not None
    assert next(seen) == ("running", 0, 0)
    submissions.progress(lease, 60, 2, 3)
    assert next(seen) == ("running", 0, 2)
    assert next(seen) is None
    submissions.accept(lease, BUNDLE, LIMITS, 1, has_played=True)
    assert list(seen) == [("accepted", 0, 2)]
    (again,) = upload(anna, zipped("one"), bot="mine")
    assert (again.version, again.bot) == (1, "mine")
    watched = anna.watch_submission(id=again.id)
    assert list(watched) == [again]


def test_the_same_key_is_the_same_submission(anna: LocalLadder) -> None:
    content = zipped("one")
    assert not anna.is_known(Archive.of(content, "", KEY, 1000))
    first = next(upload(anna, content))
    second = next(upload(anna, content))
    assert first == second
    assert anna.is_known(Archive.of(content, "", KEY, 1000))
    assert anna.submissions() == (first,)
    words = refused(RefusalKind.INVALID, lambda: upload(anna, zipped("two")))
    assert words == f"the key {KEY!r} is that of another upload; choose a new one"


def test_limits_are_refused_at_the_header_with_when_to_come_back(anna: LocalLadder) -> None:
    for text in ("one", "two", "three"):
        upload(anna, zipped(text), key=f"key-of-{text}")
    announced = Archive(bot="", size=5, sha256="0" * 64, key=KEY)
    with pytest.raises(ApiError) as error:
        anna.is_known(announced)
    assert (error.value.kind, error.value.retry_after) == (RefusalKind.EXHAUSTED, 30)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"size": 16 * MIB + 1}, "the archive has 16.1 MiB; at most 16 MiB are taken"),
        ({"size": 0}, "no file came"),
        ({"size": -1}, "no file came"),
        ({"sha256": "A" * 64}, "64 hexadecimal digits"),
        ({"sha256": ""}, "64 hexadecimal digits"),
        ({"key": "short"}, "8 to 64 characters"),
        ({"key": "a" * 65}, "8 to 64 characters"),
        ({"key": "a key\nof mine"}, "8 to 64 characters"),
        ({"bot": "../mine"}, "the bot's name '../mine' is not allowed"),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_in_one_sentence(
    anna: LocalLadder, header: dict[str, Any], words: str
) -> None:
    archive = replace(Archive.of(zipped("one"), "mine", KEY, 1000), **header)
    for call in (anna.is_known, anna.submit):
        sentence = refused(RefusalKind.INVALID, partial(call, archive))
        assert words in sentence
        assert "\n" not in sentence
    assert anna.submissions() == ()


def test_no_bots_are_taken_from_afar_where_a_season_has_no_sandbox(
    service: LadderService, anna: LocalLadder
) -> None:
    season = SeasonSettings(name="open", isolation="process")
    service.store.seasons.open(season, ladder.SEED)
    words = refused(RefusalKind.NOT_NOW, lambda: upload(anna, zipped("one")))
    assert words == (
        "season open plays bots without a sandbox, so none are taken from afar; ask whoever runs "
        "the ladder"
    )
    assert anna.submissions() == ()
    service.is_local = True
    next(upload(anna, zipped("one")))
    service.store.seasons.close("open")
    service.is_local = False
    next(upload(anna, zipped("two"), key="another-key"))
    table = schema.submissions.c
    with service.store.database.read() as connection:
        rows = connection.execute(select(table.needs_sandbox).order_by(table.id))
        assert list(rows.scalars()) == [False, True]


def test_an_author_withdraws_own_bots_and_no_others(
    service: LadderService, anna: LocalLadder, ben: LocalLadder
) -> None:
    words = refused(RefusalKind.NOT_FOUND, lambda: ben.withdraw(bot="anna"))
    assert words == "you have no bot 'anna'"
    nobodys = refused(RefusalKind.NOT_FOUND, lambda: ben.withdraw(bot="nobody"))
    assert nobodys == words.replace("anna", "nobody")
    for _ in range(2):
        place = anna.withdraw(bot="Anna")
        assert (place.bot, place.author, place.version) == ("anna", "anna-senior", 1)
        assert place.state is BotState.WITHDRAWN
    service.store.bots.disable("ben", "it crashed")
    words = refused(RefusalKind.NOT_NOW, lambda: ben.withdraw(bot="ben"))
    assert words == (
        "ben is disabled: it crashed; ask whoever runs the ladder, who alone can enable it"
    )


def test_lists_hold_what_is_the_callers_own(service: LadderService, anna: LocalLadder) -> None:
    head = structs.replace(anna.caller, author="head", role=Role.ADMIN, scopes=frozenset(Scope))
    admin = LocalLadder(service, head)
    assert {one.author for one in anna.bots()} == {"anna-senior"}
    assert admin.bots() == ()
    assert len(admin.bots(everybody=True)) == 4
    for other in (anna, LocalLadder(service, structs.replace(head, scopes=anna.caller.scopes))):
        refused(RefusalKind.DENIED, partial(other.bots, everybody=True))


def test_the_bots_of_an_author_are_read_without_those_of_others(
    anna: LocalLadder, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def note(row: Any) -> LadderBot:
        made.append(row.name)
        return _bot_of_row(row)

    monkeypatch.setattr(bots, "_bot_of_row", note)
    assert [place.bot for place in anna.bots()] == made == ["anna"]


def test_an_author_downloads_own_bots_and_no_others(
    service: LadderService, anna: LocalLadder, ben: LocalLadder
) -> None:
    ladder.submit(service.store, "anna", "x" * 100_000, "anna-senior")

    def download(**fields: Any) -> str:
        parts = list(anna.download_bot(**fields))
        assert max(map(len, parts)) <= 32 * 1024
        with zipfile.ZipFile(io.BytesIO(b"".join(parts))) as archive:
            return archive.read("bot.py").decode()

    assert download(bot="anna", version=1) == "# anna\n"
    assert download(bot="anna") == "# " + "x" * 100_000 + "\n"
    refused(RefusalKind.NOT_FOUND, lambda: ben.download_bot(bot="anna"))
    refused(RefusalKind.NOT_FOUND, lambda: anna.download_bot(bot="anna", version=3))


def test_an_author_reads_what_own_bots_left_of_a_game(
    service: LadderService, anna: LocalLadder, ben: LocalLadder
) -> None:
    game = service.store.history.get("s1-2").line
    seat = next(i for i, one in enumerate(game.seats) if one.bot == "ben")
    service.store.logs.add(game.seq, [SeatLog(seat, "anna v1", "a bug", "hello")])
    (log,) = ben.log(game_id="s1-2")
    assert (log.seat, log.bot, log.error, log.output) == (seat, "ben v1", "a bug", "hello")
    assert anna.log(game_id="s1-2") == ()
    stranger = author(service, "stranger")
    words = refused(RefusalKind.NOT_FOUND, lambda: stranger.log(game_id="s1-2"))
    nobodys = refused(RefusalKind.NOT_FOUND, lambda: stranger.log(game_id="s9-2"))
    assert words.replace("s1-2", "s9-2") == nobodys


def test_of_many_uploads_of_one_author_the_allowed_ones_wait(
    service: LadderService, anna: LocalLadder
) -> None:
    def one(number: int) -> str:
        try:
            answers = upload(anna, zipped(f"bot {number}"), f"key-{number:05}")
            return str(next(answers).state)
        except ApiError as error:
            return error.kind.name

    with ThreadPoolExecutor(20) as threads:
        ends = list(threads.map(one, range(20)))
    assert (ends.count("queued"), ends.count("EXHAUSTED")) == (3, 17)
    assert len(anna.submissions()) == 3
    # Uploads that ended make room for others.
    refused(RefusalKind.EXHAUSTED, lambda: upload(anna, zipped("more")))
    lease = service.store.submissions.claim("runner", 60)
    assert lease is not None
    service.store.submissions.refuse(lease, SubmissionRefusal("no"), 0)
    assert next(upload(anna, zipped("more"))).state == "queued"


def test_a_submission_of_another_is_not_there(
    service: LadderService, anna: LocalLadder, ben: LocalLadder
) -> None:
    number = next(upload(anna, zipped("one"))).id
    words = refused(RefusalKind.NOT_FOUND, lambda: ben.watch_submission(id=number))
    assert words == f"there is no submission {number} of yours"
    assert ben.submissions() == ()
    refused(RefusalKind.DENIED, ben.queue)
    admin = Caller(role=Role.ADMIN, scopes=frozenset(Scope))
    (waiting,) = LocalLadder(service, admin).queue()
    assert waiting.id == number
