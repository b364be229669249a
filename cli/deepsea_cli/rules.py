"""`deepsea-referee rules` and `explain`: the options of the rules, and what a position allows.

No option is named in this module: names, values and texts come from `OPTIONS`. The engine decides
everything about a position: here steps are read and applied.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import click

from deepsea_cli.options import complete_rules, load_rules, rules_option
from deepsea_cli.output import draw, print_json, width
from deepsea_rules import narration
from deepsea_rules.actions import LEAVE, kind_of
from deepsea_rules.errors import IllegalAction, InvalidAction
from deepsea_rules.events import EngineEvent, Event, end_event, event_for
from deepsea_rules.notation import DEFAULT_SEED, format_position, parse_roll, read_position
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import (
    DEFAULT,
    FACES,
    OPTIONS,
    PRESETS,
    SEAT_LETTERS,
    Option,
    OptionValue,
    RuleSet,
)
from deepsea_rules.state import GameState, why_outside
from deepsea_rules.view import known_values

FULL_NAMES_FROM = 80
"""From this width on the table has the presets' full names as its heads."""
ROLLS = tuple(f"r{total}" for total in range(2 * FACES[0], 2 * FACES[-1] + 1))


@click.command("rules")
@click.argument("name", required=False, shell_complete=complete_rules)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(name: str | None, as_json: bool) -> None:
    """Print the options of the rules and where the presets differ.

    With NAME (a preset, or a TOML file) print that rule set, option by option.
    """
    if name is None:
        if as_json:
            print_json(_document())
        else:
            _print_table()
    else:
        rules = load_rules(name)
        if as_json:
            print_json({"name": rules.name, "options": rules.options()})
        else:
            _print_rules(rules)


def _document() -> dict[str, object]:
    return {
        "default": DEFAULT,
        "options": [
            {
                "name": option.name,
                "values": _values(option),
                "about": option.about,
                "differs": _differs(option),
            }
            for option in OPTIONS
        ],
        "presets": {rules.name: rules.options() for rules in PRESETS.values()},
    }


def _print_table() -> None:
    from rich.text import Text

    roomy = width() >= FULL_NAMES_FROM
    heads = [name if roomy else name[:3] for name in PRESETS]
    gap = "  " if roomy else " "
    column = max(len(_word(value)) for option in OPTIONS for value in _values(option)) + 4
    lines = Text()
    lines.append(" " * column + gap.join(heads) + "\n", "bold")
    for option in OPTIONS:
        mark, style = ("* ", "bold") if _differs(option) else ("  ", "dim")
        lines.append(f"{mark}{option.name}\n", style)
        for value in _values(option):
            marks = ("●" if getattr(r, option.name) == value else "·" for r in PRESETS.values())
            cells = gap.join(m.center(len(h)) for m, h in zip(marks, heads, strict=True))
            lines.append(f"    {_word(value):{column - 4}}{cells}\n")
    lines.append(f"\n* the presets differ; {DEFAULT} is the default\n")
    lines.append("`deepsea-referee rules NAME` explains each option")
    draw(lines)


def _print_rules(rules: RuleSet) -> None:
    from rich.text import Text

    lines = Text()
    lines.append(f"{rules.name}{' (the default)' if rules.name == DEFAULT else ''}\n", "bold")
    column = max(len(option.name) for option in OPTIONS)
    for option in OPTIONS:
        value = getattr(rules, option.name)
        others = [
            f"{_word(other)} in {', '.join(names)}"
            for other, names in _presets_by_value(option).items()
            if other != value
        ]
        lines.append(f"{'*' if others else ' '} {option.name:{column}}  ")
        lines.append(f"{_word(value)}\n", "bold")
        about = "; ".join([option.about, *others])
        lines.append(textwrap.indent(textwrap.fill(about, width() - 6), " " * 6) + "\n", "dim")
    lines.append("\n* there are presets that differ")
    draw(lines)


def _presets_by_value(option: Option) -> dict[OptionValue, list[str]]:
    by_value: dict[OptionValue, list[str]] = {}
    for name, rules in PRESETS.items():
        by_value.setdefault(getattr(rules, option.name), []).append(name)
    return by_value


def _word(value: OptionValue) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _values(option: Option) -> list[OptionValue]:
    """The values that the option can have or has in a preset, each once."""
    return list(dict.fromkeys((*option.values, *_presets_by_value(option))))


def _differs(option: Option) -> bool:
    return len(_presets_by_value(option)) > 1


# A position


# Steps and positions may begin with a minus or be anything at all; only the command's own options
# are taken for options.
@click.command("explain", context_settings={"ignore_unknown_options": True})
@click.argument("position")
@click.argument("steps", nargs=-1, metavar="[STEP]...")
@rules_option
@click.option("--seed", metavar="TEXT", help="Seed for the values that POSITION does not give.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def explain(
    position: str, steps: tuple[str, ...], rules: str, seed: str | None, as_json: bool
) -> None:
    """Print the legal actions of POSITION, apply each STEP and print the result.

    POSITION is a line such as "1 1 x 2 [12] | A5^:1,[23] *B0v | d2 a17". A STEP is down or back, a
    roll such as r4 or r1+3, leave, take, drop:2, or order:4,3,[21]. docs/rules.md explains both.
    An illegal step is refused with exit status 1.
    """
    dealt_from = DEFAULT_SEED if seed is None else seed_from_text(seed)
    state, written = read_position(position, load_rules(rules), dealt_from)
    table = _Table(state, written)
    words = " ".join(steps).split()
    for word in words:
        _refuse_malformed(word)
    if not as_json:
        _print_position(table)
    for word in words:
        text = "\n".join(table.make(word))
        if not as_json:
            click.echo(f"{word:8}  {textwrap.indent(text, ' ' * 10).lstrip()}")
    if as_json:
        print_json(_position_document(table, dealt_from))
    elif words:
        _print_position(table)


class _Table:
    """A position, the values that may be shown, and what has happened so far."""

    def __init__(self, state: GameState, written: Mapping[int, int]) -> None:
        self.state = state
        self.happened: list[EngineEvent] = []
        self._written = written
        self._story = narration.Story(state.rules, state)

    @property
    def known(self) -> Mapping[int, int]:
        """The values that everybody knows, and those that the user wrote."""
        return {**known_values(self.state, None), **self._written}

    @property
    def position(self) -> str:
        return format_position(self.state, self.known)

    @property
    def legal(self) -> list[str]:
        """The steps that may come next."""
        phase = self.state.phase
        actions = list(self.state.legal_actions())
        # A diver that has turned back has nothing to declare: it rolls.
        return list(ROLLS) if phase in ("declare", "roll") and not actions else actions

    def make(self, word: str) -> list[str]:
        """Make a step; returns what happened in words."""
        lines = []
        is_search = not _is_roll(word) and kind_of(word) == "search"
        if self.state.legal_actions() == (LEAVE,) and not is_search:
            lines += self._make(LEAVE)
        return lines + self._make(word)

    def _make(self, word: str) -> list[str]:
        known = self.known
        try:
            result = narration.make_step(self.state, _step(word))
        except IllegalAction as error:
            where = "" if self.position in str(error) else f"; the position is {self.position}"
            raise IllegalAction(f"{error}{where}") from None
        self.happened += result.events
        lines = [line for item in result.events for line in self._story.add(event_for(item, known))]
        return lines or [_half_a_turn(result.before, self.state)]


def _step(word: str) -> narration.Step:
    if _is_roll(word):
        d1, d2 = parse_roll(word)
        return lambda state: state.roll(d1, d2)
    return lambda state: state.apply(word)


def _is_roll(word: str) -> bool:
    return word.startswith("r")


def _refuse_malformed(word: str) -> None:
    """Raise `InvalidAction` for what is no step in any position."""
    if word.startswith("--"):
        raise click.NoSuchOption(word, ctx=click.get_current_context())
    if _is_roll(word):
        parse_roll(word)
        return
    try:
        kind_of(word)
    except InvalidAction as error:
        raise InvalidAction(f"{error}, and rolls such as r4 or r1+3") from None


def _half_a_turn(before: GameState, after: GameState) -> str:
    """What a step did that did not end a turn."""
    seat = before.to_move
    who = f"{SEAT_LETTERS[seat]}{narration.ARROWS[after.homeward[seat]]}"
    if after.phase == "search":
        origin = before.place[seat]
        others = {place for other, place in enumerate(before.place) if other != seat}
        cargo = before.cargo[seat]
        steps = sum(after.rolled or ()) - len(cargo)
        rule = after.homeward[seat] and why_outside(
            after.rules, origin, others, steps, has_treasure=bool(cargo)
        )
        line = f"{who} moves from {origin or 'sub'} to {after.place[seat]}"
        return f"{line}: {rule}" if rule else line
    if before.phase == "order":
        return f"{who} will lay {' '.join(unit.name for unit in after.cargo[seat])}"
    return f"{who} breathes: air {after.air}"


def _position_document(table: _Table, seed: bytes) -> dict[str, object]:
    state = table.state
    events: list[Event] = [event_for(item, table.known) for item in table.happened]
    over = state.phase == "over"
    if over and events:
        events.append(end_event(state.result(), seed))
    return {
        "position": table.position,
        "legal": table.legal,
        "events": events,
        "phase": state.phase,
        "to_move": None if over else state.to_move,
    }


def _print_position(table: _Table) -> None:
    state = table.state
    click.echo(f"position  {table.position}")
    if state.phase == "over":
        scores = state.result().points
        points = (f"{SEAT_LETTERS[seat]} {score}" for seat, score in enumerate(scores))
        click.echo(f"over      {', '.join(points)}")
    else:
        click.echo(f"legal     {SEAT_LETTERS[state.to_move]}: {' '.join(table.legal)}")
