"""Events of a game: as the engine logs them, and as a viewer may read them.

Invariants: an engine event names chips and never a value. `event_for` is the only way from it to an
event, and adds a value only where `View.known` would have it too.

Events are plain dictionaries ready for JSON, the same for bots, watchers and event logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, TypedDict

from .actions import LEVEL_OF, Unit, name_of_chips
from .ruleset import SEAT_LETTERS
from .scoring import Result

__all__ = ["CleanupEvent", "DiveEvent", "EndEvent", "EndReason", "Event", "TurnEvent"]

EndReason = Literal["home", "air", "stall"]
"""Reason why a dive ended: all got home, the air was used up, or nothing changed for a round."""

new_tuple = tuple.__new__
"""Constructor of a named tuple from its type and its fields, in a third of the usual time."""


class DiveBegan(NamedTuple):
    """A dive begins with this trail."""

    dive: int
    starter: int
    air: int
    trail: tuple[Unit, ...]
    laid: frozenset[Unit]


class TurnPlayed(NamedTuple):
    """A turn was played to its end; dice and from_space are None if only its end was seen."""

    dive: int
    seat: int
    declare: str | None
    dice: tuple[int, int] | None
    from_space: int | None
    to_space: int
    home: bool
    search: str | None
    air: int


class CleanedUp(NamedTuple):
    """A dive ended: `trail` is the trail after it, `banked` each seat's chips of this dive."""

    dive: int
    reason: EndReason
    trail: tuple[Unit, ...]
    laid: frozenset[Unit]
    banked: tuple[tuple[int, ...], ...]
    starter: int | None


EngineEvent = DiveBegan | TurnPlayed | CleanedUp
"""Event as the engine logs it."""


class DiveEvent(TypedDict):
    """A dive begins. `trail` is in position notation."""

    event: Literal["dive"]
    dive: int
    starter: int
    air: int
    trail: str


class TurnEvent(TypedDict):
    """A turn was played.

    `declare` is "back" if the diver turned back now, "down" if it kept going although it had a
    choice, else None. Spaces count from 1, and 0 is the submarine. `dice` and `from_space` are None
    if only the turn's end was seen. `search` is None in the submarine. `air` is the true air.
    """

    event: Literal["turn"]
    dive: int
    seat: int
    declare: str | None
    dice: list[int] | None
    from_space: int | None
    to_space: int
    home: bool
    search: str | None
    air: int


class CleanupEvent(TypedDict):
    """A dive ended. `banked` has the chips of this dive by seat letter: "4", or "4=12" if known."""

    event: Literal["cleanup"]
    dive: int
    reason: EndReason
    trail: str
    banked: dict[str, list[str]]
    starter: int | None


class EndEvent(TypedDict):
    """The game ended."""

    event: Literal["end"]
    points: list[int]
    placements: list[int]
    seed: str


Event = DiveEvent | TurnEvent | CleanupEvent | EndEvent
"""Event as `Bot.on_event` gets it: a dictionary whose `event` says which of the four it is."""


def banked_chips(event: EngineEvent) -> tuple[int, ...]:
    """Return the chips whose values are in the event where the viewer knows them."""
    if isinstance(event, CleanedUp):
        return tuple(chip for chips in event.banked for chip in chips)
    return ()


def event_for(event: EngineEvent, known: Mapping[int, int]) -> Event:
    """Return the event for a viewer with these known values, by chip id."""
    match event:
        case TurnPlayed():
            return {
                "event": "turn",
                "dive": event.dive,
                "seat": event.seat,
                "declare": event.declare,
                "dice": None if event.dice is None else list(event.dice),
                "from_space": event.from_space,
                "to_space": event.to_space,
                "home": event.home,
                "search": event.search,
                "air": event.air,
            }
        case DiveBegan():
            return {
                "event": "dive",
                "dive": event.dive,
                "starter": event.starter,
                "air": event.air,
                "trail": trail_text(event.trail, event.laid),
            }
        case CleanedUp():
            return {
                "event": "cleanup",
                "dive": event.dive,
                "reason": event.reason,
                "trail": trail_text(event.trail, event.laid),
                "banked": {
                    SEAT_LETTERS[seat]: [chip_text(chip, known) for chip in chips]
                    for seat, chips in enumerate(event.banked)
                },
                "starter": event.starter,
            }


def end_event(result: Result, seed: bytes) -> EndEvent:
    """Return the last event of a game, which is the first to show the seed."""
    return {
        "event": "end",
        "points": list(result.points),
        "placements": list(result.placements),
        "seed": seed.hex(),
    }


def chip_text(chip: int, known: Mapping[int, int]) -> str:
    """Return a chip in position notation: "3", or "3=9" if its value is known."""
    level = LEVEL_OF[chip]
    value = known.get(chip)
    return str(level) if value is None else f"{level}={value}"


def trail_text(
    trail: tuple[Unit, ...] | list[Unit],
    laid: frozenset[Unit],
    known: Mapping[int, int] | None = None,
) -> str:
    """Return a trail in position notation. `trail[0]` is the submarine, which is not written.

    laid   the units that stranded divers laid, which are written in braces
    known  the chip values to write, by chip id; none by default
    """
    units = trail[1:]
    if known:
        return " ".join([unit_text(unit, known, laid=unit in laid) for unit in units])
    # Without values both texts are cached, so that this takes less time.
    return " ".join(
        [_text_of_pile(unit) if unit in laid else name_of_chips(unit) for unit in units]
    )


@lru_cache(maxsize=4096)
def _text_of_pile(unit: Unit) -> str:
    """Return a laid pile in position notation, without values; cached."""
    return unit_text(unit, {}, laid=True)


def unit_text(unit: Unit, known: Mapping[int, int], *, laid: bool = False) -> str:
    """Return a unit in position notation: "x", "3", "3=9", "[12]" or "[1=0,2]".

    known  the chip values to write, by chip id
    laid   True for a unit that stranded divers laid: it has braces, as "{12}"
    """
    if not unit:
        return "x"
    if len(unit) == 1 and not laid:
        return chip_text(unit[0], known)
    chips = [chip_text(chip, known) for chip in unit]
    # Only values make commas necessary.
    has_values = any("=" in chip for chip in chips)
    text = ("," if has_values else "").join(chips)
    return f"{{{text}}}" if laid else f"[{text}]"
