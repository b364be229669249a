"""Conversion of positions between the reference engine and a batch.

Invariants: a position that is read back is the same one for every player; but chips of one level in
a stack, and the chips of a bank, come in order of their ids.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from deepsea_rules.actions import CHIPS, Unit
from deepsea_rules.ruleset import DIVES, HOME, SEAT_LETTERS
from deepsea_rules.state import GameState

from .clean_up import SLOTS, WIDTH
from .engine import Batch, taken_bits
from .units import SUMMED, U64, Array, chip_bits, pack, unpack, unpack_trail


def put(batch: Batch, games: Array, state: GameState) -> None:
    """Make these games copies of a position in phase "declare", "roll" or "search".

    The phase names the stage to play next; the batch does not remember it. Raise ValueError for a
    position of other rules or seats, and for one that no game can reach: a diver with too many
    units, a stack of too many chips.
    """
    if state.rules != batch.rules or state.players != batch.players:
        raise ValueError(
            f"the batch plays {batch.rules.name} with {batch.players} seats, and the position "
            f"{state.rules.name} with {state.players}"
        )
    if state.phase in ("order", "over"):
        raise ValueError(f"a position in phase {state.phase} has no turn to play: {state}")
    trail, cargo = _packed(batch, state)
    # A game is idle before its first dive (0) and after its last one (DIVES + 1).
    batch.idle -= int((batch.dive[games] % (DIVES + 1) == 0).sum())
    batch.drowned[games] = 0  # unknown for earlier dives
    batch.dive[games] = state.dive
    batch.air[games] = state.air
    batch.quiet[games] = state.quiet
    batch.to_move[games] = state.to_move
    batch.out[games] = state.players - len(state.home_order)
    batch.breath[games] = sum(map(len, state.cargo))
    batch.last[games] = len(state.trail) - 1
    # As `next_seats` reads it: 8 × the bits of the seats at home
    batch.homes[games] = 8 * sum(1 << seat for seat in state.home_order)
    batch.taken[games] = taken_bits(len(state.trail) - 1, state.place)
    batch.trail[games] = trail
    batch.values[games] = state.values[1:]
    banks = zip(state.bank, state.banked_earlier, strict=True)
    batch.banked_earlier[games] = sum(chip_bits(bank[:earlier]) for bank, earlier in banks)
    for seat in range(state.players):
        divers = games * state.players + seat
        batch.place[divers] = state.place[seat]
        batch.homeward[divers] = state.homeward[seat]
        batch.barred[divers] = state.barred[seat]
        batch.load[divers] = len(state.cargo[seat])
        is_home = seat in state.home_order
        batch.home_rank[divers] = state.home_order.index(seat) + 1 if is_home else 0
        batch.cargo[divers] = cargo[seat]
        batch.carried[divers] = (cargo[seat] & SUMMED).sum(dtype=U64)
        batch.bank[divers] = chip_bits(state.bank[seat])


def _packed(batch: Batch, state: GameState) -> tuple[Array, Array]:
    """Return a position's trail [WIDTH] and cargo [seats, SLOTS] as packed units.

    Raise ValueError with the place of a unit that does not fit.
    """
    if len(state.trail) > WIDTH:
        raise ValueError(f"a trail of {len(state.trail) - 1} spaces; up to 32 are possible")
    trail = np.zeros(WIDTH, U64)
    for space, unit in enumerate(state.trail):
        trail[space] = _number(batch, unit, f"space {space}", unit in state.laid)
    # One slot always stays free: see `SLOTS`.
    cargo = np.zeros((state.players, SLOTS), U64)
    for seat, units in enumerate(state.cargo):
        owner = f"seat {SEAT_LETTERS[seat]}"
        if len(units) >= SLOTS:
            raise ValueError(f"{owner}: {len(units)} units; up to {SLOTS - 1} are possible")
        for slot, unit in enumerate(units):
            cargo[seat, slot] = _number(batch, unit, owner)
    return trail, cargo


def _number(batch: Batch, unit: Unit, owner: str, laid: bool = False) -> int:
    """Return the packed unit; `owner` begins the message of its ValueError."""
    try:
        return pack(unit, batch.by_chip, laid)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None


def state_of(
    batch: Batch, game: int, phase: Literal["declare", "roll", "search", "over"] = "declare"
) -> GameState:
    """Return the position of a game as one of the reference engine.

    phase  the stage that is to be played next, which the batch does not know
    """
    players = batch.players
    state = GameState(batch.rules, (0, *batch.values[game].tolist()), players)
    state.dive = min(int(batch.dive[game]), DIVES)
    state.air = int(batch.air[game])
    state.phase = phase
    state.to_move = int(batch.to_move[game])
    state.quiet = int(batch.quiet[game])
    numbers = batch.trail[game, : batch.last[game] + 1]
    state.trail, state.laid = unpack_trail(numbers, batch.by_chip)
    divers = range(game * players, (game + 1) * players)
    state.place = batch.place[divers].tolist()
    state.homeward = batch.homeward[divers].tolist()
    state.barred = batch.barred[divers].tolist()
    state.cargo = [
        tuple(unpack(n, batch.by_chip) for n in batch.cargo[diver, : batch.load[diver]].tolist())
        for diver in divers
    ]
    # In a bank of the engine, the chips of earlier dives come first.
    earlier = int(batch.banked_earlier[game])
    banks = [_chips(int(bank)) for bank in batch.bank[divers]]
    earlier_chips = [[chip for chip in bank if earlier >> chip - 1 & 1] for bank in banks]
    state.bank = [
        (*earlier_of_seat, *(chip for chip in bank if chip not in earlier_of_seat))
        for earlier_of_seat, bank in zip(earlier_chips, banks, strict=True)
    ]
    state.banked_earlier = tuple(map(len, earlier_chips))
    ranks = batch.home_rank[divers].tolist()
    home = [seat for seat in range(players) if state.place[seat] == HOME]
    state.home_order = tuple(sorted(home, key=ranks.__getitem__))
    state.refresh()
    return state


def _chips(bits: int) -> tuple[int, ...]:
    """Return the chips whose bits are set, by their ids."""
    return tuple([chip for chip in CHIPS if bits >> chip - 1 & 1])
