"""`deepsea-referee rules` and `explain`: the options of the rules, and the actions of a position.

No option of the rules is named in this module: names, values and texts come from `OPTIONS`. The
engine decides everything about a position; this module reads steps and applies them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import click

from deepsea_cli.options import complete_rules, json_option, load_rules, rules_option
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
    OptionValue,
    RuleOption,
    RuleSet,
)
from deepsea_rules.state import GameState, why_outside
from deepsea_rules.view import known_values

FULL_NAMES_FROM = 80
"""Width in columns from which on the heads of the table are the presets' full names."""
ROLLS = tuple(f"r{total}" for total in range(2 * FACES[0], 2 * FACES[-1] + 1))
"""The steps that roll two dice, by their total."""


@click.command("rules")
@click.argument("name", required=False, shell_complete=complete_rules)
@json_option
def command(name: str | None, json: bool) -> None:
    """Print the options of the rules and where the presets differ.

    With NAME (a preset, or a TOML file) print that rule set, option by option.
    """
    if name is None:
        if json:
            print_json(_options_document())
        else:
            _print_table()
    else:
        rules = load_rules(name)
        if json:
            print_json({"name": rules.name, "options": rules.options()})
        else:
            _print_rules(rules)


def _options_document() -> dict[str, object]:
    """Return the options and the presets as the document that `--json` prints."""
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
    """Print a table of all options and values of the rules, with a column for each preset.

    A large dot shows that the preset has the value.
    """
    from rich.text import Text

    is_wide = width() >= FULL_NAMES_FROM
    heads = [name if is_wide else name[:3] for name in PRESETS]
    gap = "  " if is_wide else " "
    indent = " " * 4
    value_width = max(len(_value_text(value)) for option in OPTIONS for value in _values(option))
    table = Text()
    table.append(indent + " " * value_width + gap.join(heads) + "\n", "bold")
    for option in OPTIONS:
        mark, style = ("* ", "bold") if _differs(option) else ("  ", "dim")
        table.append(f"{mark}{option.name}\n", style)
        for value in _values(option):
            dots = [
                ("●" if getattr(rules, option.name) == value else "·").center(len(head))
                for head, rules in zip(heads, PRESETS.values(), strict=True)
            ]
            table.append(f"{indent}{_value_text(value):{value_width}}{gap.join(dots)}\n")
    table.append(f"\n* the presets differ; {DEFAULT} is the default\n")
    table.append("`deepsea-referee rules NAME` explains each option")
    draw(table)


def _print_rules(rules: RuleSet) -> None:
    """Print a rule set option by option: its value, what it means, and the presets that differ."""
    from rich.text import Text

    output = Text()
    is_default = " (the default)" if rules.name == DEFAULT else ""
    output.append(f"{rules.name}{is_default}\n", "bold")
    name_width = max(len(option.name) for option in OPTIONS)
    for option in OPTIONS:
        value = getattr(rules, option.name)
        other_presets = [
            f"{_value_text(other_value)} in {', '.join(names)}"
            for other_value, names in _presets_by_value(option).items()
            if other_value != value
        ]
        mark = "*" if other_presets else " "
        output.append(f"{mark} {option.name:{name_width}}  ")
        output.append(f"{_value_text(value)}\n", "bold")
        about = "; ".join([option.about, *other_presets])
        wrapped = textwrap.fill(about, width() - 6)
        output.append(textwrap.indent(wrapped, " " * 6) + "\n", "dim")
    output.append("\n* there are presets that differ")
    draw(output)


def _presets_by_value(option: RuleOption) -> dict[OptionValue, list[str]]:
    """Return the names of the presets for each value that an option has in them."""
    by_value: dict[OptionValue, list[str]] = {}
    for name, rules in PRESETS.items():
        by_value.setdefault(getattr(rules, option.name), []).append(name)
    return by_value


def _value_text(value: OptionValue) -> str:
    """Return a value as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _values(option: RuleOption) -> list[OptionValue]:
    """Return the values that the option can have or has in a preset, each once."""
    return list(dict.fromkeys((*option.values, *_presets_by_value(option))))


def _differs(option: RuleOption) -> bool:
    """Return True if the presets have different values of the option."""
    return len(_presets_by_value(option)) > 1


# ----- explain


# Steps and positions may begin with a minus or be anything at all; only the command's own options
# are taken for options.
@click.command("explain", context_settings={"ignore_unknown_options": True})
@click.argument("position")
@click.argument("steps", nargs=-1, metavar="[STEP]...")
@rules_option
@click.option("--seed", metavar="TEXT", help="Seed for the values that POSITION does not give.")
@json_option
def explain(
    position: str, steps: tuple[str, ...], rules: str, seed: str | None, json: bool
) -> None:
    """Print the legal actions of POSITION, apply each STEP and print the result.

    POSITION is a line such as "1 1 x 2 [12] | A5^:1,[23] *B0v | d2 a17". A STEP is down or back, a
    roll such as r4 or r1+3, leave, take, drop:2, or order:4,3,[21]. docs/rules.md explains both.
    An illegal step is refused with exit status 1.
    """
    deal_seed = DEFAULT_SEED if seed is None else seed_from_text(seed)
    state, given_values = read_position(position, load_rules(rules), deal_seed)
    table = _Table(state, given_values)
    single_steps = " ".join(steps).split()  # one argument may have several steps
    for step in single_steps:
        _refuse_malformed(step)
    if not json:
        _print_position(table)
    for step in single_steps:
        outcome = "\n".join(table.apply(step))
        if not json:
            click.echo(f"{step:8}  {textwrap.indent(outcome, ' ' * 10).lstrip()}")
    if json:
        print_json(_position_document(table, deal_seed))
    elif single_steps:
        _print_position(table)


class _Table:
    """A position, the values that may be shown, and the events so far."""

    def __init__(self, state: GameState, given_values: Mapping[int, int]) -> None:
        """Begin with a position; `given_values` are the values in its line, by chip."""
        self.state = state
        self.events: list[EngineEvent] = []
        self._given_values = given_values
        self._story = narration.Story(state.rules, state)

    @property
    def known(self) -> Mapping[int, int]:
        """The values that everybody knows and those that the user wrote, by chip."""
        return {**known_values(self.state, None), **self._given_values}

    @property
    def position(self) -> str:
        """The position in the notation of the command's argument."""
        return format_position(self.state, self.known)

    @property
    def legal(self) -> list[str]:
        """The steps that may come next."""
        phase = self.state.phase
        actions = list(self.state.legal_actions())
        # A diver that has turned back has nothing to declare: it rolls.
        return list(ROLLS) if phase in ("declare", "roll") and not actions else actions

    def apply(self, word: str) -> list[str]:
        """Apply a step that the user wrote, and return lines that tell what happened.

        The user need not write `leave` where it is the only legal action: it is applied first.
        """
        lines: list[str] = []
        is_search_action = not _is_roll(word) and kind_of(word) == "search"
        must_leave = self.state.legal_actions() == (LEAVE,)
        if must_leave and not is_search_action:
            lines += self._apply_one(LEAVE)
        lines += self._apply_one(word)
        return lines

    def _apply_one(self, word: str) -> list[str]:
        """Apply one step, and return lines that tell what happened.

        Raises IllegalAction, with the position in its message, if the step is not legal.
        """
        known_before = self.known  # the step may reveal values, which its events must not have
        try:
            result = narration.make_step(self.state, _step(word))
        except IllegalAction as error:
            has_position = self.position in str(error)
            where = "" if has_position else f"; the position is {self.position}"
            raise IllegalAction(f"{error}{where}") from None
        self.events += result.events
        lines: list[str] = []
        for event in result.events:
            lines += self._story.add(event_for(event, known_before))
        return lines or [_part_of_turn(result.before, self.state)]


def _step(word: str) -> narration.Step:
    """Return the function that applies a step to a state: a roll of the dice, or an action."""
    if _is_roll(word):
        d1, d2 = parse_roll(word)
        return lambda state: state.roll(d1, d2)
    return lambda state: state.apply(word)


def _is_roll(word: str) -> bool:
    return word.startswith("r")


def _refuse_malformed(word: str) -> None:
    """Raise InvalidAction for a word that is no step of the game in any position.

    Such a word with two dashes is meant as an option: it is refused as an unknown one.
    """
    if word.startswith("--"):
        raise click.NoSuchOption(word, ctx=click.get_current_context())
    if _is_roll(word):
        parse_roll(word)  # raises InvalidAction if it is none
        return
    try:
        kind_of(word)
    except InvalidAction as error:
        raise InvalidAction(f"{error}, and rolls such as r4 or r1+3") from None


def _part_of_turn(before: GameState, after: GameState) -> str:
    """Return a line on a step within a turn, for which the engine has no event before its end.

    before  position before the step
    after   position after it
    """
    seat = before.to_move
    diver = f"{SEAT_LETTERS[seat]}{narration.ARROWS[after.homeward[seat]]}"
    if after.phase == "search":
        return f"{diver} {_move_text(before, after, seat)}"
    if before.phase == "order":
        return f"{diver} will lay {' '.join(unit.name for unit in after.cargo[seat])}"
    return f"{diver} breathes: air {after.air}"


def _move_text(before: GameState, after: GameState, seat: int) -> str:
    """Return the move of a diver in words, with the rule that let it stop outside, if one did."""
    start = before.place[seat]
    move = f"moves from {start or 'sub'} to {after.place[seat]}"
    if not after.homeward[seat]:
        return move
    # A diver on its way home may have stopped before the submarine, which a rule explains.
    other_places = {place for other, place in enumerate(before.place) if other != seat}
    cargo = before.cargo[seat]
    steps = sum(after.rolled or ()) - len(cargo)  # each unit that it carries costs one step
    rule = why_outside(after.rules, start, other_places, steps, has_treasure=bool(cargo))
    return f"{move}: {rule}" if rule else move


def _position_document(table: _Table, seed: bytes) -> dict[str, object]:
    """Return the position and the events of the steps as the document that `--json` prints.

    seed  seed of the values, which becomes known at the end of the game
    """
    state = table.state
    events: list[Event] = [event_for(event, table.known) for event in table.events]
    is_over = state.phase == "over"
    if is_over and events:  # without events the game was over before the first step
        events.append(end_event(state.result(), seed))
    return {
        "position": table.position,
        "legal": table.legal,
        "events": events,
        "phase": state.phase,
        "to_move": None if is_over else state.to_move,
    }


def _print_position(table: _Table) -> None:
    """Print the position and its legal steps, or the points at the end of the game."""
    state = table.state
    click.echo(f"position  {table.position}")
    if state.phase == "over":
        scores = state.result().points
        points = (f"{SEAT_LETTERS[seat]} {score}" for seat, score in enumerate(scores))
        click.echo(f"over      {', '.join(points)}")
    else:
        click.echo(f"legal     {SEAT_LETTERS[state.to_move]}: {' '.join(table.legal)}")
