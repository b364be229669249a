"""`deepsea-referee rules`: the options of the rules, and where the presets differ.

No option is named in this module: names, values and texts come from `OPTIONS`.
"""

from __future__ import annotations

import textwrap

import click

from deepsea_cli.options import complete_rules, load_rules
from deepsea_cli.output import draw, print_json, width
from deepsea_rules.ruleset import DEFAULT, OPTIONS, PRESETS, Option, OptionValue, RuleSet

FULL_NAMES_FROM = 80
"""From this width on the table has the presets' full names as its heads."""


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
