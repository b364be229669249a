"""Positions in one line of text, and the few verbs that the rules tests share.

Nothing here decides a rule: a helper only reads notation, feeds steps and shows what came of it.
Steps are those of the position notation; a roll whose faces do not matter is given as `r4`.
"""

from collections.abc import Iterable

from deepsea_rules.events import Event, event_for
from deepsea_rules.notation import format_position, parse_position
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.state import GameState
from deepsea_rules.view import View, view_for

ALL = ("guide", "revised", "manual", "reference", "publisher")
CHIPS = tuple(range(1, 33))
HOME = -1


def level(chip: int) -> int:
    """The level of a chip id, from the definition: eight ids to a level."""
    return (chip - 1) // 8 + 1


def opening(*taken: int) -> str:
    """The opening trail, with blanks on the spaces that were taken."""
    return " ".join("x" if n in taken else str(level(n)) for n in CHIPS)


def custom(base: str = "manual", **options: bool | str | int | None) -> RuleSet:
    """A preset with some options changed, as a rule set of its own."""
    return RuleSet.from_options("house", {**PRESETS[base].options(), **options})


def at(text: str, rules: str | RuleSet = "manual") -> GameState:
    """The position a line of text describes."""
    return parse_position(text, PRESETS[rules] if isinstance(rules, str) else rules)


def view_at(text: str) -> View:
    """What the seat to move sees there, by the manual's rules."""
    state = at(text)
    return view_for(state, state.to_move)


def choices(state: GameState) -> list[str]:
    """What the seat to move may do."""
    return list(state.legal_actions())


def events(state: GameState) -> list[Event]:
    """What happened since `log` was given to the state, without any value."""
    return [event_for(event, {}) for event in state.log or []]


def faces(total: int) -> tuple[int, int]:
    """Two faces that add up to a total of 2 to 6."""
    first = min(3, total - 1)
    return first, total - first


def play(state: GameState, *steps: str) -> GameState:
    """Apply steps to the state itself. A declaration that is left out is the default one."""
    for step in steps:
        if step[0] == "r" and step[1:].isdigit():
            if state.phase == "declare" and (options := state.legal_actions()):
                state.apply(options[0])
            state.roll(*faces(int(step[1:])))
        else:
            state.apply(step)
    return state


def turn(state: GameState, total: int, declare: str | None = None, search: str = "leave") -> None:
    """One whole turn; the search is left out where there is none."""
    seat, dive = state.to_move, state.dive
    play(state, *([declare] if declare else []), f"r{total}")
    if state.phase == "search" and (state.to_move, state.dive) == (seat, dive):
        state.apply(search)


def settle(state: GameState) -> GameState:
    """Play the default order wherever stranded divers are asked for one."""
    while state.phase == "order":
        state.apply(state.legal_actions()[0])
    return state


def trail(state: GameState) -> str:
    """The trail as the notation writes it, without values."""
    return format_position(state).split("|")[0].strip()


def chips_of(state: GameState) -> list[int]:
    """Every chip that lies somewhere, sorted: on the trail, in cargo or in a bank."""
    found = [chip for unit in state.trail for chip in unit]
    found += [chip for cargo in state.cargo for unit in cargo for chip in unit]
    found += [chip for bank in state.bank for chip in bank]
    return sorted(found)


def levels(chips: Iterable[int]) -> list[int]:
    """The levels of some chips, in their order."""
    return [level(chip) for chip in chips]


def snapshot(state: GameState) -> tuple[object, ...]:
    """Everything a state holds, as a value that does not change when the state does."""
    return (
        state.rules,
        state.players,
        state.dive,
        state.air,
        state.phase,
        state.to_move,
        state.quiet_turns,
        tuple(tuple(unit) for unit in state.trail),
        frozenset(tuple(unit) for unit in state.laid),
        tuple(state.place),
        tuple(state.homeward),
        tuple(state.barred),
        tuple(tuple(tuple(unit) for unit in cargo) for cargo in state.cargo),
        tuple(tuple(bank) for bank in state.bank),
        tuple(state.home_order),
        tuple(state.values),
        tuple(state.legal_actions()),
        format_position(state, show="all"),
    )
