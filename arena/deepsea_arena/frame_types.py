"""What frames consist of, as JSON; docs/viewer.md describes each key."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from deepsea_rules.events import EndReason

Viewer = int | Literal["watcher"] | None
"""Who looks: a seat, a watcher who knows what all know, or None, who knows everything."""
MarkKind = Literal["back", "home", "drowned", "fault", "lead", "slowest", "judged"]


class FrameSeat(TypedDict):
    name: str
    version: str
    """The beginning of the digest of the bot's files."""


class Frame(TypedDict):
    t: int
    """How many turns have been begun."""
    p: str
    """The position in notation, with the values that the viewer knows at this moment."""
    dice: list[int] | None
    say: list[str]
    """What just happened, as the terminal says it; nothing while a turn goes on."""
    d: int
    """How many decisions have been made."""


class FrameOption(TypedDict):
    action: str
    score: list[float]
    """The placement score that it leads to, and its error of 95 %."""


class FrameJudgement(TypedDict):
    """What an analysis says of a decision."""

    mark: str
    """"?!", "?", "??" or nothing."""
    best: str
    level: bool
    """Another option seems better, but that is not sure."""
    regret: list[float]
    """How far the action is behind the best one, and the error of that."""
    options: list[FrameOption]


class FrameDecision(TypedDict):
    seat: int
    kind: str
    action: str
    us: int | None
    """The time in microseconds; None is what the viewer does not learn."""
    fault: str | None
    at: int
    """The index of the frame that the bot saw when it was asked."""
    bank: NotRequired[int]
    """What was left of the bank of time after it, in microseconds."""
    asked: NotRequired[list[str]]
    """With a fault: the legal actions."""
    came: NotRequired[str]
    """With a fault: what the bot did instead."""
    judged: NotRequired[FrameJudgement]
    """With an analysis."""


class DiveSeat(TypedDict):
    seat: int
    home: int | None
    """1 for who came home first in the dive."""
    space: int | None
    """Where a diver that is not home ended; 0 is the submarine."""
    chips: list[str]
    """What it brought home, or lost."""
    say: str


class Dive(TypedDict):
    dive: int
    at: int
    """The index of the frame in which it ended, before the clean-up."""
    reason: EndReason
    say: str
    seats: list[DiveSeat]


class Mark(TypedDict):
    at: int
    """The index of the frame in which it is seen."""
    kind: MarkKind
    seat: int
    say: str
    sign: NotRequired[str]
    """Of kind "judged": "?!", "?" or "??"."""


class FrameResult(TypedDict):
    scores: list[int]
    placements: list[int]
    forfeits: list[dict[str, object]]


class Frames(TypedDict):
    v: int
    id: str
    viewer: str
    """"all", "watcher" or a seat's letter."""
    rules: str
    clock: str
    budget: int | None
    bank: int | None
    """Budget and bank of the clock in microseconds."""
    air: int
    """What the tank holds."""
    values: list[list[int]]
    """What the chips of each level are worth."""
    seats: list[FrameSeat]
    frames: list[Frame]
    decisions: list[FrameDecision]
    dives: list[Dive]
    marks: list[Mark]
    result: FrameResult
    seed: str
    policy: NotRequired[str]
    """With an analysis: what all seats play by in its roll-outs."""
    luck: NotRequired[list[list[float]]]
    """With an analysis: for each seat its luck so far, by frame, in placement score."""
