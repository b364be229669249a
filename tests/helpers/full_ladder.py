"""A ladder with something of everything that its API shows, the same to the last byte every time.

Invariants: seeds, secrets and texts are fixed, and the time is that of a `StoreClock`; what is done
is done by the store's own functions and by commands, as runners, admins and authors do it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine, event

from deepsea_bundle.archive import pack
from deepsea_ladder.accounts import (
    MACHINE,
    SHOWN,
    USUAL_SCOPES,
    Actor,
    NewToken,
    Scope,
    SecretKind,
    new_secret,
)
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import (
    AnalysisPlan,
    ComparisonStanding,
    Job,
    SeatLog,
    StoredSeason,
    SubmissionLease,
    SubmissionRefusal,
    Verdict,
)
from deepsea_ladder.rating import RatingParameters
from deepsea_ladder.season import BotLimits, PairingSettings, SeasonSettings, VerdictSettings
from deepsea_ladder.store import Store
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import RuleSet

from . import ladder
from .bundles import bundle_of
from .commands import called
from .people import Runner, new_game
from .submissions import new

START: Final = datetime(2027, 3, 1, 8, tzinfo=UTC)
JULIAN: Final = datetime(2000, 1, 1, 12, tzinfo=UTC), 2451545.0
"""A moment, and the days of it as SQLite counts them."""
HOME: Final = "203.0.113.0/24"
LONG: Final = 10**7
"""Seconds of a lease that does not expire here."""
PEOPLE: Final[Mapping[str, tuple[str, tuple[Scope, ...]]]] = {
    "head": ("head", tuple(Scope)),
    "chief": ("chief", USUAL_SCOPES),
    "anna": ("anna-senior", USUAL_SCOPES),
    "ben": ("ben-senior", USUAL_SCOPES),
    "finn": ("finn-senior", USUAL_SCOPES),
    "reader": ("anna-senior", (Scope.READ,)),
    "former": ("ben-senior", USUAL_SCOPES),
}
"""Tokens, and of each the author and the scopes. head and chief are admins, finn is blocked, and
`former` was revoked."""


@contextmanager
def connecting(does: Callable[[sqlite3.Connection], object]) -> Iterator[None]:
    """Do something with each connection to SQLite that a store of this process makes."""

    def connected(connection: sqlite3.Connection, _record: object) -> None:
        does(connection)

    event.listen(Engine, "connect", connected)
    try:
        yield
    finally:
        event.remove(Engine, "connect", connected)


class StoreClock:
    """The clock of every store in SQLite that this process opens while it is installed."""

    def __init__(self) -> None:
        self.now = START

    def tick(self, **time: float) -> None:
        """Advance by a minute and a bit, or by a timedelta of these arguments."""
        self.now += timedelta(**(time or {"seconds": 61.234}))

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Be the clock of the stores that are opened from now on."""
        with connecting(lambda connection: connection.create_function("julianday", 1, self._days)):
            yield

    def _days(self, _now: object) -> float:
        moment, days = JULIAN
        return days + (self.now - moment) / timedelta(days=1)


def token_of(name: str) -> str:
    """The token of that name, as in PEOPLE."""
    return new_secret(SecretKind.TOKEN, _bytes(f"token {name}"))[0]


def code_of(name: str) -> str:
    """The code of that name."""
    return new_secret(SecretKind.CODE, _bytes(f"code {name}"))[0]


def archive_of(text: str) -> bytes:
    """The zip of a bot whose only peculiarity is a text."""
    return pack(ladder.a_bundle(text).files)


def stock(path: Path, clock: StoreClock) -> None:
    """Make the ladder at this path, next to which files of games are left."""
    with clock.installed(), ladder.created(path) as store:
        making = _Stocking(store, clock)
        making.bots()
        making.people()
        making.spring()
        making.main()
        making.tournaments()
        making.submissions()
        making.analyses(path)
        making.changes(path)
        making.persons_games()
        making.comparisons()
        store.tasks.note_rest("another runner", "no worker is free", LONG)


class _Stocking:
    """The steps that make the ladder."""

    def __init__(self, store: Store, clock: StoreClock) -> None:
        self._store = store
        self._clock = clock

    def bots(self) -> None:
        """Bots, each of an author of its own; anna's has two versions."""
        for name in (*ladder.NAMES, "gil", "hal"):
            ladder.submit(self._store, name)
            self._clock.tick()
        ladder.submit(self._store, "anna", "anna, once more")

    def people(self) -> None:
        """Codes, tokens and sessions; what was there before ended with a backup."""
        accounts, tick = self._store.accounts, self._clock.tick
        accounts.admin_token("head", _token("before"), MACHINE)
        accounts.end_all_secrets()
        for name in ("head", "chief"):
            tick()
            accounts.admin_token(name, _token(name), MACHINE)
        head = self._actor("head")
        for name in ("anna", "ben", "finn"):
            tick()
            accounts.make_codes([(_code(name), PEOPLE[name][0])], 14, head)
            accounts.redeem(_code(name), "", _token(name), HOME)
        for name in ("reader", "former"):
            by = self._actor(PEOPLE[name][0])
            made = accounts.create_token(by.author_id or 0, _token(name), 50, by)
            if name == "former":
                accounts.revoke(SecretKind.TOKEN, made.id, by)
        for number in range(2):
            tick()
            _, session = new_secret(SecretKind.SESSION, _bytes(f"session {number}"))
            accounts.open_session(_token("anna").digest, session, 14, 50, HOME)
        tick()
        wanted = [(_code("newcomer"), ""), (_code("gina"), "gina"), (_code("revoked"), "")]
        *_, last = accounts.make_codes(wanted, 30, head)
        accounts.revoke(SecretKind.CODE, last.id, head)

    def spring(self) -> None:
        """A season with settings of its own, in which much went wrong; it is closed."""
        store = self._store
        rules = {"name": "house", "base": "publisher", "options": {"first_player": "seat_a"}}
        season = store.seasons.open(
            SeasonSettings(
                name="spring",
                rules=RuleSet.from_table(rules),
                seats=(2,),
                clock="1s+10s",
                packages=("no-such-package==1.0",),
                limits=BotLimits(memory_mib=256, processes=8, require_cgroups=True),
                rating=RatingParameters(beta=8.0),
                pairing=PairingSettings(same_author=True, former_versions=True, patience=6.0),
            ),
            seed_from_text("spring"),
        )
        self._add(season, "anna ben", turns=10)
        self._add(season, "ben cleo", "cleo dan", "eve anna", "finn gil")
        self._add(season, *["eve finn"] * 3, turns=1)
        store.jobs.fail(self._claim(season), "the machine was too slow", 1)
        late = self._claim(season)
        again = self._claim(season, "another runner")  # the lease has expired
        for job in (again, late):
            store.games.report(job, ladder.play(job))
        store.games.report(self._claim(season), "no record")
        self._claim(season)
        store.jobs.hand_back("runner", reason="the runner was stopped")
        self._play(season, {"spring-3": ["ben"], **{f"spring-{n}": ["eve"] for n in (19, 20, 21)}})
        self._add(season, "anna finn")
        store.seasons.close("spring")

    def main(self) -> None:
        """An open season of tables with two and three; games wait, and one failed too often."""
        store = self._store
        self._clock.tick(days=1)
        season = store.seasons.open(
            SeasonSettings(name="main", seats=(2, 3), verdicts=VerdictSettings(panel=("cleo",))),
            seed_from_text("main"),
            submissions_until=_ms(START + timedelta(days=60)),
        )
        self._add(season, "anna ben cleo", "finn gil hal", "dan anna")
        self._play(season, {"main-2": ["ben"]}, {"main-1": {"cleo": 1, "ben": 2}})
        left = {"ben": ("Traceback: boom \x1b[2J\n", "a <b>line</b>\nünï\n"), "cleo": ("late", "")}
        for game in store.history.latest(10, season):
            store.logs.add(
                game.seq,
                [
                    SeatLog(number, "anna v1", *left[seat.bot])
                    for number, seat in enumerate(game.seats)
                    if seat.bot in left
                ],
            )
        self._add(season, "hal anna")
        for attempt in range(10):
            store.jobs.fail(job := self._claim(season), "the worker died")
            if attempt == 4:
                store.jobs.requeue(job.game_id, self._actor("head"))
        self._claim(season, seconds=LONG)
        self._add(season, "gil finn cleo", "ben finn")
        self._claim(season, "a lost runner")

    def tournaments(self) -> None:
        """Two whose games are played."""
        for name, kind, bots in (
            ("cup", "round-robin", "anna ben cleo"),
            ("final", "elimination", "anna ben"),
        ):
            self._clock.tick()
            versions = self._versions(bots)
            plan = {"kind": kind, "seats": 2, "meetings": 1, "bots": versions}
            season = self._store.seasons.open(
                ladder.a_season(name, seats=(2,)), seed_from_text(name), json.dumps(plan)
            )
            words = bots.split()
            pairs = [(a, b) for i, a in enumerate(words) for b in words[i + 1 :]]
            self._add(season, *map(" ".join, pairs))
            self._play(season)

    def submissions(self) -> None:
        """Bots from afar in each state."""
        for name, bot in (("ben", "failing"), ("anna", "anna"), ("ben", "crashing")):
            self._submit(name, bot)
        while (lease := self._claim_submission()) is not None:
            self._check(lease)
        self._submit("anna", "second")
        checked = self._claim_submission()
        assert checked is not None
        self._store.submissions.progress(checked, LONG, 3, 8)
        self._submit("anna", "third")
        self._submit("ben", "")

    def analyses(self, path: Path) -> None:
        """Analyses in each state, and one by another policy."""
        store = self._store.analyses
        for game, state in (
            ("spring-1", "done"),
            ("spring-2", "outdated"),
            ("spring-4", "failed"),
            ("main-1", "running"),
            ("main-2", "queued"),
            ("main-3", "queued"),
        ):
            self._clock.tick()
            if state == "outdated":
                old = AnalysisPlan("steady-0", '{"precision":0.1}')
                store.request(game, None, old, USUAL_LIMITS)
            else:
                called("ladder", "analyse", game, "--store", path)
            lease = None if state == "queued" else store.claim("runner", LONG)
            if lease is not None and state == "failed":
                store.reject(lease, "the record makes no sense")
            elif lease is not None and state == "outdated":
                store.finish(lease, "steady-0", "{}", USUAL_LIMITS)
            elif lease is not None and state == "done":
                record = path.with_name(f"{game}.json")
                record.write_text(lease.record, encoding="utf-8")
                done = called("analyse", record, "--rollouts", 2, "--luck", "--json")
                found = json.loads(done.out)
                found["games"][0]["record"] = record.name  # as runners have it
                text = json.dumps(found, separators=(",", ":"))
                store.finish(lease, found["policy"], text, USUAL_LIMITS)

    def changes(self, path: Path) -> None:
        """Bots that were taken out, authors who changed, and ratings that were computed again."""
        store, head = self._store, self._actor("head")
        self._clock.tick()
        called("ladder", "refold", "--rewrite", "--season", "spring", "--store", path)
        store.bots.withdraw("cleo", actor=self._actor("cleo-senior"))
        store.bots.disable("dan", "it mines coins", head)
        store.bots.disable("hal", "by mistake", head)
        self._clock.tick()
        store.bots.enable("hal", head)
        store.authors.rename("hal-senior", "hal-the-second", head)
        store.authors.set_blocked("finn-senior", head, blocked=True)
        store.authors.anonymise("gil-senior", head)
        self._clock.tick(hours=2)

    def persons_games(self) -> None:
        """Games of people: one that waits for anna, one of ben's that is over, one that is void."""
        games, runner = self._store.person_games, Runner(self._store)
        versions = self._versions("anna ben")
        for name, author in (("asked", "anna"), ("done", "ben"), ("void", "eve")):
            author_id = self._actor(f"{author}-senior").author_id
            more: dict[str, Any] = {
                "game_id": f"person-{name}",
                "season_id": self._store.seasons.get("main").id,
            }
            new_game(self._store, author_id=author_id, versions=versions, **more)
            runner.play_on()
        games.leave("person-done")
        runner.play_on()
        games.leave("person-void", drop=True)

    def comparisons(self) -> None:
        """Of anna's version one with a verdict and one without yet; others wait."""
        store = self._store.comparisons
        verdicts: tuple[Verdict | None, ...] = ("worse", None)
        for verdict in verdicts:
            lease = store.claim("runner", LONG)
            while lease is not None and lease.versions[0].bot != "anna":
                lease = store.claim("runner", LONG)
            assert lease is not None
            for number in range(12):
                last = number == 11
                standing = ComparisonStanding(
                    blocks=number + 1,
                    lead=-0.125,
                    low=-0.25,
                    high=-0.0078125 if verdict else 0.03,
                    verdict=verdict if last else None,
                    blocks_to_go=234 if last and not verdict else None,
                    faults=2,
                )
                assert store.add(lease, number, b"{}", 250, standing, LONG)
            store.hand_back("runner")

    # ------------------------------------------------------------------------------------- steps

    def _actor(self, author: str) -> Actor:
        return Actor(self._store.authors.id_of(author), address=HOME)

    def _versions(self, bots: str) -> list[int]:
        return [self._store.bots.get(name).current.id for name in bots.split()]

    def _add(self, season: StoredSeason, *tables: str, turns: int | None = None) -> None:
        """Queue the games of tables: of each as many as it has seats, or so many."""
        for bots in tables:
            versions = self._versions(bots)
            rotations = ladder.rotations(versions, turns or len(versions))
            self._store.jobs.add(season, rotations)

    def _claim(self, season: StoredSeason, owner: str = "runner", seconds: float = 60) -> Job:
        self._clock.tick()
        return ladder.claim(self._store, season, owner, seconds)

    def _play(
        self,
        season: StoredSeason,
        crashing: Mapping[str, Collection[str]] = {},
        faulty: Mapping[str, Mapping[str, int]] = {},
    ) -> None:
        """Play every game that waits; bots crash or are faulty in the games of these ids."""
        while self._store.queue.counts(season).waiting:
            job = self._claim(season)
            crash, fault = crashing.get(job.game_id, ()), faulty.get(job.game_id, {})
            self._store.games.report(job, ladder.play(job, crash, faulty=fault))

    def _submit(self, name: str, bot: str) -> None:
        self._clock.tick()
        content = archive_of(f"{bot} of {name}")
        author_id = self._actor(PEOPLE[name][0]).author_id or 0
        wanted = new(author_id, content, key=f"key-{bot}-{name}", bot=bot)
        self._store.submissions.add(wanted, [content], USUAL_LIMITS)

    def _claim_submission(self) -> SubmissionLease | None:
        self._clock.tick()
        return self._store.submissions.claim("runner", LONG)

    def _check(self, lease: SubmissionLease) -> None:
        store = self._store.submissions
        if lease.bot == "failing":
            store.fail(lease, "the sandbox does not work", 100)
        elif lease.bot == "crashing":
            refusal = SubmissionRefusal(
                "it crashed in an admission game",
                "run `deepsea-referee check` on it",
                ("a line", "\x1b[31mred\x1b[0m"),
                "Traceback (most recent call last):\n  boom\n",
            )
            store.refuse(lease, refusal, 700, digest="0" * 64)
        else:
            bundle = bundle_of(dict(ladder.a_bundle("anna from afar").files), lease.bot)
            store.accept(lease, bundle, USUAL_LIMITS, 2_500, has_played=True)


def _token(name: str) -> NewToken:
    """What is stored of a token."""
    secret, digest = new_secret(SecretKind.TOKEN, _bytes(f"token {name}"))
    scopes = PEOPLE[name][1] if name in PEOPLE else tuple(Scope)
    return NewToken(digest, secret[:SHOWN], f"{name}'s", 90, scopes)


def _code(name: str) -> str:
    """What is stored of a code."""
    return new_secret(SecretKind.CODE, _bytes(f"code {name}"))[1]


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def _bytes(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
