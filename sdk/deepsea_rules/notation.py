"""Notation: one line of text for one position, written and read.

    TRAIL | DIVERS | CLOCK          1 1 x 2 [12] {34} | A5v:1,[23] *B0v Ch1/4=12,1 | d2 a17 search

Invariants: `format_position(parse_position(text))` is the canonical form of `text`, and canonical
text comes back unchanged. A value is written only where the writer may know it. Values that are not
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
from typing import Literal, cast

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
from .view import known_values, unseen_values

Show = Literal["public", "all"] | int | Mapping[int, int]
PHASES: tuple[Phase, ...] = ("declare", "roll", "search", "order", "over")
DEFAULT_SEED = seed_from_text("position")
"""Seed that deals the values that a position does not write."""


# Writing


def format_position(state: GameState, show: Show = "public") -> str:
    """Return the position in one line of notation.

    show  which chip values to write: "public" for those that everybody knows, a seat's number for
          those that it knows, "all" for all, or a mapping from chip ids to values
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
    """Return the position of a text. Raise `InvalidPosition`, which names the part at fault.

    Chip ids are given in reading order. Chips that the position does not mention are out of play.
    """
    return read_position(text, rules, seed)[0]


def read_position(
    text: str, rules: RuleSet, seed: bytes = DEFAULT_SEED
) -> tuple[GameState, dict[int, int]]:
    """Return the position of a text, and the values that the text gives, by chip id.

    Values that the text does not give are dealt from the seed. Raise `InvalidPosition`, which names
    the part at fault.
    """
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
    state.laid = frozenset(unit for unit, is_laid in trail if is_laid)
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
    """Return the two faces of a step such as "r3" (any two faces of that sum) or "r1+2"."""
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
    """Chips of a position: their ids, given in reading order, and the values that are written."""

    def __init__(self) -> None:
        self._next_id = {level: CHIPS_PER_LEVEL * (level - 1) + 1 for level in LEVELS}
        self.written: dict[int, int] = {}

    def read(self, text: str) -> int:
        """Return the id of the chip that a text stands for, and keep its value if that is written.

        The text is a level, as "3", or a level and a value, as "3=9". A chip gets the lowest id of
        its level that is not used yet.
        """
        match = re.fullmatch(r"([1-4])(?:=([0-9]{1,2}))?", text)
        if not match:
            raise InvalidPosition(f"{quoted(text)} is no chip; write a level 1 to 4, or 3=9")
        level = int(match[1])
        chip = self._next_id[level]
        self._next_id[level] += 1
        highest_id = CHIPS_PER_LEVEL * level
        if chip > highest_id:
            raise InvalidPosition(f"more than {CHIPS_PER_LEVEL} chips of level {level}")
        if match[2]:
            value = int(match[2])
            allowed = values_of_level(level)
            if value not in allowed:
                raise InvalidPosition(
                    f"{text!r}: level {level} has the values {allowed[0]} to {allowed[-1]}"
                )
            self.written[chip] = value
            if list(self.written.values()).count(value) > allowed.count(value):
                raise InvalidPosition(f"{text!r}: only two chips are worth {value}")
        return chip

    def read_unit(self, text: str) -> Unit:
        """Return the unit that a text stands for: a chip, or a stack in brackets.

        In a stack with a value, commas separate the chips: "[1=0,2]". Otherwise each digit is a
        chip: "[12]".
        """
        if not text.startswith("["):
            return Unit((self.read(text),))
        inside = text[1:-1]
        if not text.endswith("]") or not inside:
            raise InvalidPosition(f"{quoted(text)} is no stack; write [12] or [1=0,2]")
        has_values = "," in inside or "=" in inside
        chip_texts = inside.split(",") if has_values else list(inside)
        return Unit(self.read(chip_text) for chip_text in chip_texts)

    def deal(self, seed: bytes) -> tuple[int, ...]:
        """Return the value of every chip, indexed by chip id; index 0 is unused.

        Chips without a written value get the others of their level, shuffled by the seed. If no
        values are written, these are the values of the game with this seed.
        """
        values = [0] * (CHIPS[-1] + 1)
        for level in LEVELS:
            remaining_values = unseen_values(level, self.written)
            dealt = iter(shuffled(remaining_values, Stream(seed, f"deal/{level}").uniform))
            for chip in CHIPS:
                if LEVEL_OF[chip] == level:
                    written_value = self.written.get(chip)
                    values[chip] = next(dealt) if written_value is None else written_value
        return tuple(values)


_DIVER = re.compile(
    r"(?P<star>\*?)(?P<seat>[A-F])(?:(?P<home>h)(?P<order>[1-6]?)|(?P<space>[0-9]{1,2})(?P<facing>[v^]))"
    r"(?P<barred>!?)(?::(?P<cargo>[^/]+))?(?:/(?P<bank>.+))?\Z"
)


class _Diver:
    """Fields of one word of DIVERS."""

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
    """Return the parts between commas; commas inside brackets do not count."""
    return re.split(r",(?![^\[]*\])", text) if text else []


def _read_space(word: str, chips: _Chips) -> tuple[Unit, bool]:
    """Return the unit that a word of TRAIL stands for, and True if stranded divers laid it.

    A laid pile is written in braces, as "{12}"; an empty space is "x".
    """
    if word == "x":
        return BLANK, False
    if word.startswith("{") and word.endswith("}"):
        return chips.read_unit(f"[{word[1:-1]}]"), True
    return chips.read_unit(word), False


def _read_clock(text: str, state: GameState) -> None:
    """Set dive, air, quiet turns and phase of a state from CLOCK, such as "d2 a17 s1 search".

    A part that is left out has the value of a game's first turn. Quiet turns are those in a row in
    which nothing changed.
    """
    match = re.fullmatch(r"(?:d([1-9]))?\s*(?:a(-?[0-9]{1,2}))?\s*(?:s([0-9]))?\s*([a-z]+)?", text)
    if not match:
        raise InvalidPosition(f"{quoted(text)} is no clock; write d1 a25, or d2 a17 search")
    dive, air, quiet, phase = match.groups()
    state.dive = int(dive or 1)
    state.air = int(air) if air else FULL_AIR
    state.quiet_turns = int(quiet or 0)
    if phase is not None and phase not in PHASES:
        raise InvalidPosition(f"no phase is called {quoted(phase)}; there are {', '.join(PHASES)}")
    state.phase = cast(Phase, phase or "declare")
    if state.dive > DIVES:
        raise InvalidPosition(f"there are {DIVES} dives, not {state.dive}")
    if state.air > FULL_AIR:
        raise InvalidPosition(f"the tank holds {FULL_AIR}, not {state.air}")


def _place_divers(state: GameState, divers: list[_Diver]) -> None:
    """Set the fields of a state that describe the divers, and the seat to move.

    If no diver is marked, the first one that is not home is to move. The phase has to be set
    already. Raise `InvalidPosition` for divers that cannot be together.
    """
    if "".join(diver.letter for diver in divers) != SEAT_LETTERS[: len(divers)]:
        raise InvalidPosition("divers stand in seat order, A first and none left out")
    state.place = [diver.place for diver in divers]
    state.homeward = [diver.homeward for diver in divers]
    state.barred = [diver.barred for diver in divers]
    state.cargo = [diver.cargo for diver in divers]
    state.bank = [diver.bank for diver in divers]
    state.home_order = _home_order(divers)
    marked_seats = [seat for seat, diver in enumerate(divers) if diver.to_move]
    seats_out = [seat for seat, diver in enumerate(divers) if not diver.home]
    if len(marked_seats) > 1:
        raise InvalidPosition("more than one diver is marked * as to move")
    if state.phase == "over":
        state.to_move = 0
    elif not seats_out:
        raise InvalidPosition("all divers are home, so the dive is over; leave one of them outside")
    else:
        state.to_move = marked_seats[0] if marked_seats else seats_out[0]


def _home_order(divers: list[_Diver]) -> tuple[int, ...]:
    """Return the seats at home in the order in which they came, as their numbers say: h1, h2, ...

    Seats that are written without a number get the numbers that are free, in seat order. Raise
    `InvalidPosition` for a number that is written twice or is too high.
    """
    home_count = 0
    seat_of_number: dict[int, int] = {}
    unnumbered_seats: list[int] = []
    has_repeated_number = False
    for seat, diver in enumerate(divers):
        if not diver.home:
            continue
        home_count += 1
        if diver.order is None:
            unnumbered_seats.append(seat)
        elif diver.order in seat_of_number:
            has_repeated_number = True
        else:
            seat_of_number[diver.order] = seat
    if has_repeated_number or any(number > home_count for number in seat_of_number):
        raise InvalidPosition(f"{home_count} divers are home; number them h1 to h{home_count}")
    for number in range(1, home_count + 1):
        if number not in seat_of_number:
            seat_of_number[number] = unnumbered_seats.pop(0)
    return tuple(seat_of_number[number] for number in range(1, home_count + 1))


def _banked_earlier(state: GameState, seat: int, written: Mapping[int, int]) -> int:
    """Return how many chips of a seat's bank are from earlier dives, as far as a text can tell.

    A diver that is still out has banked nothing in this dive, so all its chips are from earlier
    dives. Of a diver at home, the chips before the first one without a written value are counted,
    because the values of earlier chips are public.

    written  the values that the text gives, by chip id
    """
    bank = state.bank[seat]
    if state.place[seat] != HOME:
        return len(bank)
    count = 0
    while count < len(bank) and bank[count] in written:
        count += 1
    return count


def _refuse_impossible(state: GameState) -> None:
    """Raise `InvalidPosition` if a position cannot occur in a game, or nobody could play it on."""
    _refuse_impossible_divers(state)
    if state.phase == "over":
        return
    mover, name = state.to_move, SEAT_LETTERS[state.to_move]
    if state.place[mover] == HOME:
        raise InvalidPosition(f"{name} is to move but home")
    if state.phase == "declare" and state.air <= 0:
        raise InvalidPosition(f"air {state.air} ends the dive, so no turn can begin")
    if state.phase == "order" and not has_choice(state, mover):
        raise InvalidPosition(f"{name} has no choice in how its cargo is laid")


def _refuse_impossible_divers(state: GameState) -> None:
    """Raise `InvalidPosition` if divers cannot be in these places, with this cargo and facing."""
    occupied_spaces = [place for place in state.place if place > ABOARD]
    if len(set(occupied_spaces)) < len(occupied_spaces):
        raise InvalidPosition("two divers stand on one space")
    for seat, place in enumerate(state.place):
        name = SEAT_LETTERS[seat]
        if place >= len(state.trail):
            raise InvalidPosition(
                f"{name} stands on space {place}, but the trail has {len(state.trail) - 1}"
            )
        is_like_at_start = not (state.cargo[seat] or state.homeward[seat] or state.barred[seat])
        if place <= ABOARD and not is_like_at_start:  # in the submarine, or home
            raise InvalidPosition(f"{name} is in the submarine: no cargo, facing ^ or ! there")
        if state.barred[seat] and state.rules.barred_release != "never_this_dive":
            raise InvalidPosition(f"{name} is marked ! but these rules bar nobody for a whole dive")
