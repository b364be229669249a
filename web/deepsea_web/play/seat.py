"""A person's seat behind a page: a referee's `Person`, whose state is one JSON document.

How it is used, by a command or by a runner whose pages are served by another process:

    seat = PageSeat(clock)
    players={number: partial(PersonSeat, seat, control, clock)}    of play_match: it is asked here
    seat.over(number, record, place, judging=True, more=True)      a game has ended
    seat.judged(analysis, place)                                   and was judged; None: skipped
    seat.wait_for_next()                                           blocks until "next"
    seat.interrupt()                                               a person is not waited for
    seat.end("...")                                                nothing comes any more

    seat.document()             what a page shows now (`SeatDocument`; plain JSON)
    news_of(document, has)      what a page that has something lacks, as a server-sent event
    seat.do(Deed("answer", asked, "take"))    what the person does, from any thread; never blocks
    the seat is the source of an `EventStream`

Deeds: "answer" with an action, "hint", "play on" (leave; defaults are played), "drop" (leave; the
game does not count), "next" (the next game). One that is not for the question that is being asked
does nothing: a page may be old, or be sent twice. page.py makes the page of a document, and reads
deeds from its forms; neither knows where documents are from and where deeds go.

Invariants: a document has nothing but what the seat knew at each moment; which actions there are,
the view says.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

from deepsea_arena.coach.analysis import GameAnalysis
from deepsea_arena.coach.own import in_words, worst
from deepsea_arena.reports.frames import LONGEST_NAME
from deepsea_arena.reports.seat import SeatDocument, course, ending, nothing_yet, question
from deepsea_referee.choices import HINT_EFFORT, Choosing, hint
from deepsea_referee.person import Asked
from deepsea_referee.timing.clock import Clock
from deepsea_referee.workbench.replay import game_at
from deepsea_rules import narration
from deepsea_rules.printable import one_line
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_sdk.clock import NO_CLOCK
from deepsea_sdk.coach.decisions import Effort
from deepsea_web.http import Source

THINKING = "the coach is looking at it"


class Deed(NamedTuple):
    """What a person does at its page."""

    what: str
    asked: int = 0
    """The question that it answers; 0 for "next"."""
    action: str = ""
    """Of "answer": an action or a key."""


DEEDS = ("answer", "hint", "play on", "drop", "next")
Cursor = tuple[int, int, int]
"""What a reader has: the number of its news, the game, and how many of its frames."""


def waits(document: SeatDocument) -> bool:
    """Whether something comes without a deed of the person."""
    looks = document["judging"] or document["note"] == [THINKING]
    return looks or not (document["asked"] or document["table"] or document["ended"])


def news_of(document: SeatDocument, has: Cursor) -> tuple[Cursor, str]:
    """What a reader lacks, as an event with its new place as id; "" if that is nothing."""
    news, game, known = has
    if news == document["news"]:
        return has, ""
    begin = known if game == document["game"] else 0
    place = (document["news"], document["game"], len(document["frames"]))
    parts = {
        "names": document["names"],
        "frames": document["frames"][begin:],
        "waits": waits(document),
    }
    text = json.dumps(parts)
    return place, f"id: {'.'.join(map(str, place))}\ndata: {text}\n\n"


class PageSeat(Source[Cursor]):
    """The seat; every method may be called from any thread."""

    def __init__(self, clock: Clock, hint_effort: Effort = HINT_EFFORT) -> None:
        super().__init__()
        self.on_drop: Callable[[], object] = lambda: None
        """Called when the person drops the game."""
        self.hints = 0
        """How many hints it has asked for in this game."""
        self.away = False
        """It has left: default actions are played."""
        self.dropped = False
        self.skips = False
        """It does not wait for the judgement of its decisions."""
        self.interrupted = False
        self._asked = 0
        self._clock = clock
        self._hint_effort = hint_effort
        self._due_us: int | None = None
        self._deeds: SimpleQueue[Deed | None] = SimpleQueue()
        self._deciding = threading.Lock()
        self._changing = threading.Lock()
        self._document = nothing_yet()

    # Of the referee

    def begin(self, names: Sequence[str]) -> None:
        self.hints = 0
        self._change(
            game=self._document["game"] + 1,
            names=[one_line(name, LONGEST_NAME) for name in names],
            frames=[],
            note=[],
            table=[],
            judged=None,
            more=False,
        )

    def wake(self, why: str) -> None:
        """End the decision that waits, after a timeout."""
        self._change(note=[why])
        self._deeds.put(None)

    def decide(self, asked: Asked) -> str | None:
        """Show the position and the choices, and wait for a deed."""
        with self._deciding:  # one that is not wanted any more may still be ending
            if self.away:
                return asked.view.legal[0]
            view = asked.view
            assert view.me.seat is not None
            self._change(
                seat=SEAT_LETTERS[view.me.seat],
                rules=one_line(view.rules.name, LONGEST_NAME),
                frames=course(asked.course()),
            )
            self._due_us = None
            if asked.time_left != NO_CLOCK:
                self._due_us = self._clock.now_us() + sum(asked.time_left)
            try:
                return self._choose(asked)
            finally:
                self._change(asked=None, note=[])

    def _choose(self, asked: Asked) -> str | None:
        choosing = Choosing(asked.view)
        note: list[str] = []
        while asked.is_wanted() and not (self.interrupted or self.dropped):
            self._asked += 1
            self._change(asked=question(self._asked, asked.view, choosing), note=note)
            deed = self._deeds.get()
            while deed is not None and deed.asked != self._asked:
                deed = self._deeds.get()
            if deed is None:
                continue
            match deed.what:
                case "hint":
                    self.hints += 1
                    self._change(note=[THINKING])
                    note = hint(asked.view, self._hint_effort)
                case "play on":
                    self.away = True
                    return asked.view.legal[0]
                case "drop":
                    self.drop()
                    return None
                case "answer":
                    with suppress(ValueError):  # no page offers it
                        if (action := choosing.choose(deed.action)) is not None:
                            return action
                    note = choosing.note
        return None

    # Of who plays the games

    def over(self, game: int, record: GameRecord, place: int, *, judging: bool, more: bool) -> None:
        """Show the end of a game; `place` is the person's seat in it.

        judging  its decisions are being judged, which "next" skips
        """
        names = [one_line(name, LONGEST_NAME) for name in narration.names(record)]
        self.skips = False
        self._change(
            game=game,
            seat=SEAT_LETTERS[place],
            judging=judging,
            more=more,
            **ending(record, place, names),
        )

    def judged(self, found: GameAnalysis | None, place: int) -> None:
        """Show what the person's decisions were worth."""
        judged = None if found is None else _judged(found, place)
        self._change(judging=False, judged=judged)

    def wait_for_next(self) -> None:
        """Wait until the person wants another game, or leaves."""
        while self._document["more"] and not (self.interrupted or self.dropped):
            deed = self._deeds.get()
            if deed is not None and deed.what == "next":
                self._change(more=False, table=[], judged=None)
            elif deed is not None and deed.what == "drop":
                self.drop()

    def interrupt(self) -> None:
        """End all waiting for the person."""
        self.interrupted = True
        self._deeds.put(None)

    def end(self, why: str) -> None:
        """Show that nothing comes any more."""
        self.on_drop = lambda: None
        self._change(ended=why, asked=None, more=False, judging=False)

    # Of the page

    def do(self, deed: Deed) -> None:
        self.skips = deed.what == "next"
        self._deeds.put(deed)

    def drop(self) -> None:
        self.dropped = True
        self._deeds.put(None)
        self.on_drop()

    def document(self) -> SeatDocument:
        """What a page shows now."""
        document = self._document.copy()
        if document["asked"] is not None and self._due_us is not None:
            document["left_us"] = max(0, self._due_us - self._clock.now_us())
        return document

    def since(self, has: Cursor) -> tuple[Cursor, str]:
        return news_of(self._document, has)

    async def settled(self, news: int) -> None:
        """Wait until what followed these news waits for the person."""
        woken = asyncio.Event()
        with self.waking(woken.set):
            while self._document["news"] == news or waits(self._document):
                woken.clear()
                await woken.wait()

    def _change(self, **values: object) -> None:
        with self._changing:
            changed = {**self._document, **values, "news": self._document["news"] + 1}
            self._document = changed  # type: ignore[assignment]  # keys are those of the class
        self.changed()


def _judged(found: GameAnalysis, place: int) -> dict[str, Any]:
    decisions = [
        {
            "turn": one.turn,
            "dive": one.judged.dive,
            "position": str(game_at(found.record, one.number).view(place)),
            "played": one.judged.played,
            "better": one.judged.best,
            "lost": round(one.judged.regret.mean, 2),
        }
        for one in worst(found)
    ]
    return {"words": in_words(found, place), "worst": decisions}
