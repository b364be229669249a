"""One line of text for one position, and back.

    TRAIL | DIVERS | CLOCK          1 1 x 2 [12] {34} | A5v:1,[23] *B0v Ch1/4=12,1 | d2 a17 search

Invariants: `format_position(parse_position(text))` is the canonical form of `text`, and canonical
text comes back unchanged; a value is written only where the writer may know it; values that are not
written are dealt from a seed, consistently with the others.

The parts:
    TRAIL   from the submarine outward: 3 = a level-3 chip, x = a blank, [12] = a stack, {12} = a
            pile laid by stranded divers and not carried since; 3=9 gives a value, [1=0,2] in stacks
    DIVERS  [*]SEAT PLACE FACING [!] [:cargo] [/bank]; * = to move; PLACE 0 aboard, n = space n,
            h1 = first one home; FACING v down or ^ homeward; ! = barred for the rest of the dive
    CLOCK   d1 a25 [s2] [declare|roll|search|order|over]: dive, true air, quiet turns, phase
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from .actions import BLANK, CHIPS, CHIPS_PER_LEVEL, LEVEL_OF, LEVELS, Unit, values_of_level
from .cleanup import has_choice
from .errors import InvalidAction, InvalidPosition
from .position import Phase, position_text
from .printable import quoted
from .randomness import Stream, seed_from_text, shuffled
from .ruleset import (
    ABOARD,
    DIVES,
    FACES,
    FULL_AIR,
    HOME,
    MAX_PLAYERS,
    SEAT_LETTERS,
    RuleSet,
)
from .state import GameState
from .view import known_values

Show = Literal["public", "all"] | int | Mapping[int, int]
PHASES: tuple[Phase, ...] = ("declare", "roll", "search", "order", "over")
DEFAULT_SEED = seed_from_text("position")
"""Deals the values that a position does not write."""


# Writing


def format_position(state: GameState, show: Show = "public") -> str:
    """The position in one line.

    show  "public" writes the values that everybody knows, a seat those that it knows, "all" every
          value, and a mapping from chip ids the values in it
    """
    if show == "all":
        known: Mapping[int, int] = {chip: state.values[chip] for chip in CHIPS}
    elif isinstance(show, Mapping):
        known = show
    else:
        known = known_values(state, None if show == "public" else int(show))
    return position_text(state, known)


# Reading


def parse_position(text: str, rules: RuleSet, seed: bytes = DEFAULT_SEED) -> GameState:
    """The position that the text describes; raises `InvalidPosition` with the part at fault.

    Chip ids are given in reading order. Chips that the position does not mention are out of play.
    """
    return read_position(text, rules, seed)[0]


def read_position(
    text: str, rules: RuleSet, seed: bytes = DEFAULT_SEED
) -> tuple[GameState, dict[int, int]]:
    """Like `parse_position`, with the values that the text gives, by chip id."""
    parts = [part.strip() for part in text.split("|")]
    if len(parts) == 2:
        parts.append("")
    if len(parts) != 3:
        raise InvalidPosition(f"a position is TRAIL | DIVERS | CLOCK, not {quoted(text)}")
    chips = _Chips()
    divers = [_Diver(word, chips) for word in parts[1].split()]
    if not 1 <= len(divers) <= MAX_PLAYERS:
        raise InvalidPosition(f"a position has 1 to {MAX_PLAYERS} divers, not {len(divers)}")
    state = GameState(rules, (), len(divers))
    trail = [_read_space(word, chips) for word in parts[0].split()]
    state.trail += [unit for unit, _ in trail]
    state.laid = frozenset(unit for unit, laid in trail if laid)
    _read_clock(parts[2], state)
    _place_divers(state, divers)
    state.values = chips.deal(seed)
    state.banked_earlier = tuple(
        _banked_earlier(state, seat, chips.written) for seat in range(state.players)
    )
    _refuse_impossible(state)
    state.refresh()
    return state, chips.written


def parse_roll(step: str) -> tuple[int, int]:
    """The two faces of a step such as "r3" (any two faces of that sum) or "r1+2"."""
    if match := re.fullmatch(r"r([0-9])\+([0-9])", step):
        faces = int(match[1]), int(match[2])
        if faces[0] in FACES and faces[1] in FACES:
            return faces
        raise InvalidAction(f"{step!r} is no roll: a die shows 1, 2 or 3")
    if match := re.fullmatch(r"r([0-9])", step):
        total = int(match[1])
        if 2 <= total <= 6:
            return total // 2, total - total // 2
        raise InvalidAction(f"{step!r} is no roll: two dice show 2 to 6")
    raise InvalidAction(f"{quoted(step)} is no roll; write r3 or r1+2")


class _Chips:
    """Gives chip ids in reading order and collects the values that are written."""

    def __init__(self) -> None:
        self._next = {level: CHIPS_PER_LEVEL * (level - 1) + 1 for level in LEVELS}
        self.written: dict[int, int] = {}

    def read(self, text: str) -> int:
        """The id of a chip written as "3" or "3=9"."""
        match = re.fullmatch(r"([1-4])(?:=([0-9]{1,2}))?", text)
        if not match:
            raise InvalidPosition(f"{quoted(text)} is no chip; write a level 1 to 4, or 3=9")
        level = int(match[1])
        chip = self._next[level]
        self._next[level] += 1
        if chip > CHIPS_PER_LEVEL * level:
            raise InvalidPosition(f"more than {CHIPS_PER_LEVEL} chips of level {level}")
        if match[2]:
            value = int(match[2])
            allowed = values_of_level(level)
            if value not in allowed:
                raise InvalidPosition(
                    f"{text!r}: level {level} has the values {allowed[0]} to {allowed[-1]}"
                )
            self.written[chip] = value
            twins = [v for c, v in self.written.items() if LEVEL_OF[c] == level and v == value]
            if len(twins) > allowed.count(value):
                raise InvalidPosition(f"{text!r}: only two chips are worth {value}")
        return chip

    def read_unit(self, text: str) -> Unit:
        """A chip, or a stack in brackets: "[12]", "[1=0,2]"."""
        if not text.startswith("["):
            return Unit((self.read(text),))
        inside = text[1:-1]
        if not text.endswith("]") or not inside:
            raise InvalidPosition(f"{quoted(text)} is no stack; write [12] or [1=0,2]")
        items = inside.split(",") if "," in inside or "=" in inside else list(inside)
        return Unit(self.read(item) for item in items)

    def deal(self, seed: bytes) -> tuple[int, ...]:
        """The value of every chip, the written ones first; without any it is the seed's deal."""
        values = [0] * (CHIPS[-1] + 1)
        for level in LEVELS:
            left = list(values_of_level(level))
            for chip, value in self.written.items():
                if LEVEL_OF[chip] == level:
                    left.remove(value)
            dealt = iter(shuffled(left, Stream(seed, f"deal/{level}").uniform))
            for chip in CHIPS:
                if LEVEL_OF[chip] == level:
                    written = self.written.get(chip)
                    values[chip] = next(dealt) if written is None else written
        return tuple(values)


_DIVER = re.compile(
    r"(?P<star>\*?)(?P<seat>[A-F])(?:(?P<home>h)(?P<order>[1-6]?)|(?P<space>[0-9]{1,2})(?P<facing>[v^]))"
    r"(?P<barred>!?)(?::(?P<cargo>[^/]+))?(?:/(?P<bank>.+))?\Z"
)


class _Diver:
    """One word of DIVERS."""

    def __init__(self, word: str, chips: _Chips) -> None:
        match = _DIVER.match(word)
        if not match:
            raise InvalidPosition(f"{quoted(word)} is no diver; write A5v:1,[23] or Bh1/4=12,1")
        self.to_move = bool(match["star"])
        self.letter = match["seat"]
        self.home = bool(match["home"])
        self.order = int(match["order"]) if match["order"] else None
        self.place = HOME if self.home else int(match["space"])
        self.homeward = match["facing"] == "^"
        self.barred = bool(match["barred"])
        self.cargo = tuple(chips.read_unit(unit) for unit in _split(match["cargo"]))
        self.bank = tuple(chips.read(chip) for chip in _split(match["bank"]))


def _split(text: str | None) -> list[str]:
    """Parts between commas that stand outside brackets."""
    return re.split(r",(?![^\[]*\])", text) if text else []


def _read_space(word: str, chips: _Chips) -> tuple[Unit, bool]:
    """The unit on a space, and whether it is a laid pile."""
    if word == "x":
        return BLANK, False
    if word.startswith("{") and word.endswith("}"):
        return chips.read_unit(f"[{word[1:-1]}]"), True
    return chips.read_unit(word), False


def _read_clock(text: str, state: GameState) -> None:
    match = re.fullmatch(r"(?:d([1-9]))?\s*(?:a(-?[0-9]{1,2}))?\s*(?:s([0-9]))?\s*([a-z]+)?", text)
    if not match:
        raise InvalidPosition(f"{quoted(text)} is no clock; write d1 a25, or d2 a17 search")
    dive, air, quiet, word = match.groups()
    state.dive = int(dive or 1)
    state.air = int(air) if air else FULL_AIR
    state.quiet = int(quiet or 0)
    phase = next((phase for phase in PHASES if phase == (word or "declare")), None)
    if phase is None:
        raise InvalidPosition(f"no phase is called {quoted(word)}; there are {', '.join(PHASES)}")
    state.phase = phase
    if state.dive > DIVES:
        raise InvalidPosition(f"there are {DIVES} dives, not {state.dive}")
    if state.air > FULL_AIR:
        raise InvalidPosition(f"the tank holds {FULL_AIR}, not {state.air}")


def _place_divers(state: GameState, divers: list[_Diver]) -> None:
    if "".join(diver.letter for diver in divers) != SEAT_LETTERS[: len(divers)]:
        raise InvalidPosition("divers stand in seat order, A first and none left out")
    state.place = [diver.place for diver in divers]
    state.homeward = [diver.homeward for diver in divers]
    state.barred = [diver.barred for diver in divers]
    state.cargo = [diver.cargo for diver in divers]
    state.bank = [diver.bank for diver in divers]
    state.home_order = _home_order(divers)
    stars = [seat for seat, diver in enumerate(divers) if diver.to_move]
    out = [seat for seat, diver in enumerate(divers) if not diver.home]
    if len(stars) > 1:
        raise InvalidPosition("more than one diver is marked * as to move")
    if state.phase == "over":
        state.to_move = 0
    elif not out:
        raise InvalidPosition("all divers are home, so the dive is over; leave one of them outside")
    else:
        state.to_move = stars[0] if stars else out[0]


def _home_order(divers: list[_Diver]) -> tuple[int, ...]:
    """Seats by their number of return; those without one fill the free numbers in seat order."""
    home = [seat for seat, diver in enumerate(divers) if diver.home]
    by_number = {divers[seat].order: seat for seat in home if divers[seat].order is not None}
    numbered = sum(divers[seat].order is not None for seat in home)
    if len(by_number) < numbered or any(number > len(home) for number in by_number if number):
        raise InvalidPosition(f"{len(home)} divers are home; number them h1 to h{len(home)}")
    rest = iter([seat for seat in home if divers[seat].order is None])
    return tuple(
        by_number[number] if number in by_number else next(rest)
        for number in range(1, len(home) + 1)
    )


def _banked_earlier(state: GameState, seat: int, written: Mapping[int, int]) -> int:
    """How many banked chips are from earlier dives, as far as a text can tell.

    A diver who is out has banked nothing in this dive. For one at home, a value that everybody
    knows shows an earlier dive.
    """
    bank = state.bank[seat]
    if state.place[seat] != HOME:
        return len(bank)
    return next((i for i, chip in enumerate(bank) if chip not in written), len(bank))


def _refuse_impossible(state: GameState) -> None:
    """Raise `InvalidPosition` for what no game can come to, or could not go on from."""
    spaces = [place for place in state.place if place > ABOARD]
    if len(set(spaces)) < len(spaces):
        raise InvalidPosition("two divers stand on one space")
    for seat, place in enumerate(state.place):
        name = SEAT_LETTERS[seat]
        if place >= len(state.trail):
            raise InvalidPosition(
                f"{name} stands on space {place}, but the trail has {len(state.trail) - 1}"
            )
        if place <= ABOARD and (state.cargo[seat] or state.homeward[seat] or state.barred[seat]):
            raise InvalidPosition(f"{name} is in the submarine: no cargo, facing ^ or ! there")
        if state.barred[seat] and state.rules.barred_release != "never_this_dive":
            raise InvalidPosition(f"{name} is marked ! but these rules bar nobody for a whole dive")
    if state.phase == "over":
        return
    mover, name = state.to_move, SEAT_LETTERS[state.to_move]
    if state.place[mover] == HOME:
        raise InvalidPosition(f"{name} is to move but home")
    if state.phase == "declare" and state.air <= 0:
        raise InvalidPosition(f"air {state.air} ends the dive, so no turn can begin")
    if state.phase == "order" and not has_choice(state, mover):
        raise InvalidPosition(f"{name} has no choice in how its cargo is laid")
