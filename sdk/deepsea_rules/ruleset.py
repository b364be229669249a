"""Rules: the common parts of all rule texts, and their differences as data.

Invariants: a `RuleSet` is frozen. The presets differ in their data alone, so nothing in the engine
compares a preset's name. An option's name, values and meaning are in one place, the annotation of
its field, from which `OPTIONS` is made.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, NamedTuple, Self, get_args

from .errors import InvalidRules
from .printable import quoted

OptionValue = bool | str | int | None

DIVES = 3
"""Dives in a game."""
FULL_AIR = 25
"""Air at the start of a dive."""
FACES = (1, 2, 3)
"""Faces of a die, each on two of its six sides."""
MIN_PLAYERS = 2
MAX_PLAYERS = 6
USUAL_PLAYERS = 4
PILE_ITEMS = 3
"""Items that stranded divers lay on one pile."""
SEAT_LETTERS = "ABCDEF"
"""Letters of the seats; in data, seats count from 0."""
ABOARD = 0
"""Place of a diver in the submarine that has not left it in this dive, or cannot."""
HOME = -1
"""Place of a diver that has come back in this dive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """A complete set of rules; the fields are in the order of records."""

    name: str
    turn_needs_treasure: Annotated[bool, "only a diver with treasure may turn back"]
    forced_turn: Annotated[
        Literal["never", "when_cannot_advance"],
        "a diver with no free space deeper must turn back, or may stay",
    ]
    home_empty_handed: Annotated[
        Literal["allowed", "barred"],
        "a diver without treasure may enter the submarine, or has to wait outside",
    ]
    barred_release: Annotated[
        Literal[None, "on_pickup", "never_this_dive"],
        "a barred diver may enter once it has taken something, or not in this dive",
    ]
    drop_last_after_turn: Annotated[bool, "after turning back the last unit may be dropped"]
    reveal: Annotated[
        Literal["dive_end", "game_end"], "when everybody learns the values of banked chips"
    ]
    owner_peek: Annotated[
        Literal["none", "on_return"], "whether an owner learns its own chips on its return"
    ]
    drop_sequence: Annotated[
        Literal["closest_first", "farthest_first"],
        "which stranded diver lays its cargo down first",
    ]
    drop_order: Annotated[
        Literal["owner_choice", "pickup_order"],
        "who decides the order in which a stranded diver's items are laid",
    ]
    top_up_tail_piles: Annotated[bool, "items first fill older piles at the end of the trail"]
    relost_stack: Annotated[
        Literal["unit", "chips"], "a stack that is lost again is laid as one item, or chip by chip"
    ]
    starter: Annotated[
        Literal["farthest_stranded_else_last_home", "last_home_else_farthest"],
        "who begins the next dive",
    ]
    tiebreak: Annotated[
        Literal["top_level", "lexicographic", "level4"],
        "what decides between players with the same points",
    ]
    blank_count: Annotated[int | None, "how many blanks the box holds; a label, they never run out"]
    first_player: Annotated[Literal["roll_off", "seat_a"], "who begins the first dive"]
    unknown_options: tuple[str, ...] = ()
    """Options of a newer version, which no field holds: such rules cannot be simulated."""

    def __post_init__(self) -> None:
        if not (self.name.strip() and self.name.isprintable() and len(self.name) <= 60):
            raise InvalidRules("the name of a rule set is one line of up to 60 characters")
        for option in OPTIONS:
            option.check(getattr(self, option.name))
        if self.turn_needs_treasure and self.forced_turn == "when_cannot_advance":
            raise InvalidRules(
                "turn_needs_treasure forbids what forced_turn = when_cannot_advance demands: "
                "a diver without treasure at the deep end could neither stay nor turn; "
                "change one of the two"
            )
        if self.home_empty_handed == "allowed" and self.barred_release is not None:
            raise InvalidRules(
                "barred_release says when a barred diver may enter, but home_empty_handed = "
                "allowed bars nobody; leave barred_release out, or bar divers"
            )
        if self.home_empty_handed == "barred" and self.barred_release is None:
            raise InvalidRules(
                "home_empty_handed = barred needs barred_release: on_pickup or never_this_dive"
            )

    def options(self) -> dict[str, OptionValue]:
        """Return every option by name, in the order of `OPTIONS`, ready for JSON."""
        return {option.name: getattr(self, option.name) for option in OPTIONS}

    @classmethod
    def from_options(cls, name: str, options: Mapping[str, Any]) -> Self:
        """Return the rule set with this name and these options. Every option must be given.

        Raise `InvalidRules` for an unknown or missing one.
        """
        _refuse_unknown(options)
        missing = [option.name for option in OPTIONS if option.name not in options]
        if missing:
            raise InvalidRules(f"rule set {name!r} lacks the option {missing[0]}")
        return cls(name=name, **options)

    @classmethod
    def from_toml(cls, text: str) -> "RuleSet":
        """Return the custom rule set of a TOML file's text; see `from_table`."""
        # Imported late: it takes a tenth of the time of a bot's imports, and no bot reads TOML.
        import tomllib

        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidRules(f"not a TOML file: {error}") from None
        return cls.from_table(data)

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> "RuleSet":
        """Return the custom rule set that a table describes. Raise `InvalidRules` for a wrong one.

        table  may have `name`, `base`, the name of a preset, and `options`, which differ from those
               of the base
        """
        for key in table:
            if key not in ("name", "base", "options"):
                raise InvalidRules(f"unknown key {key!r}; a rule set has name, base and [options]")
        name, base = table.get("name", "custom"), table.get("base", DEFAULT)
        options = table.get("options", {})
        if not isinstance(name, str):
            raise InvalidRules(f"name is a text, not {quoted(name)}")
        if name in PRESETS:
            raise InvalidRules(f"name {name!r} belongs to a preset; choose another one")
        if not isinstance(options, dict):
            raise InvalidRules("[options] must be a table")
        _refuse_unknown(options)
        # `barred_release` needs barred divers, and barred divers need it. So it follows
        # `home_empty_handed`, unless it is given too.
        if "home_empty_handed" in options and "barred_release" not in options:
            bars_divers = options["home_empty_handed"] == "barred"
            options = {**options, "barred_release": "on_pickup" if bars_divers else None}
        return replace(preset(base), name=name, **options)


class RuleOption(NamedTuple):
    """One row of the table of options."""

    name: str
    values: tuple[OptionValue, ...]
    about: str

    def check(self, value: object) -> None:
        """Raise `InvalidRules` unless `value` is one of the option's values."""
        if self.name == "blank_count":  # the only option with numbers, too many to list
            if value is None or (type(value) is int and 0 < value < 1000):
                return
            raise InvalidRules(f"blank_count is a number from 1 to 999 or left out, not {value!r}")
        # `True == 1`, so equality alone would let numbers pass for booleans.
        if value not in self.values or type(value) not in map(type, self.values):
            allowed_values = ", ".join(
                "none given" if allowed is None else str(allowed).lower() for allowed in self.values
            )
            raise InvalidRules(f"{self.name} is one of {allowed_values}, not {value!r}")

    def to_text(self, value: OptionValue) -> str | None:
        """Return the value in one word, such as "true"; None if the option has none."""
        return value if isinstance(value, str) or value is None else str(value).lower()

    def in_words(self, value: OptionValue) -> str:
        """Return the value for people: `yes`, `dive end`, or a dash for none."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "–" if value is None else str(value).replace("_", " ")

    def from_text(self, text: str | None) -> OptionValue:
        """Return the value that a text from `to_text` stands for, such as True for "true".

        Raise `InvalidRules` if the option has no such value.
        """
        value: OptionValue = text
        if text is not None and self.name == "blank_count":
            value = int(text) if text.isdecimal() else text
        elif text in ("true", "false"):
            value = text == "true"
        self.check(value)
        return value


def _options() -> Iterator[RuleOption]:
    """Yield an option for each field of `RuleSet` that is `Annotated[type, description]`."""
    annotations: dict[str, Any] = RuleSet.__annotations__
    for name, annotation in annotations.items():
        if not hasattr(annotation, "__metadata__"):  # the field is not Annotated
            continue
        option_type, about = get_args(annotation)
        if option_type is bool:
            values: tuple[OptionValue, ...] = (False, True)
        elif option_type == int | None:
            values = (None,)  # `RuleOption.check` allows numbers, too
        else:  # Literal["on_pickup", ...]
            values = get_args(option_type)
        yield RuleOption(name, values, about)


OPTIONS = tuple(_options())

_MANUAL = RuleSet(
    name="manual",
    turn_needs_treasure=True,
    forced_turn="never",
    home_empty_handed="allowed",
    barred_release=None,
    drop_last_after_turn=True,
    reveal="dive_end",
    owner_peek="none",
    drop_sequence="closest_first",
    drop_order="owner_choice",
    top_up_tail_piles=False,
    relost_stack="unit",
    starter="farthest_stranded_else_last_home",
    tiebreak="top_level",
    blank_count=12,
    first_player="roll_off",
)

DEFAULT = "manual"
"""The preset that is played if none is named."""

PRESETS: dict[str, RuleSet] = {
    rules.name: rules
    for rules in (
        _MANUAL,
        replace(
            _MANUAL,
            name="reference",
            home_empty_handed="barred",
            barred_release="on_pickup",
            drop_last_after_turn=False,
            starter="last_home_else_farthest",
            tiebreak="level4",
        ),
        replace(
            _MANUAL,
            name="guide",
            turn_needs_treasure=False,
            forced_turn="when_cannot_advance",
            reveal="game_end",
            owner_peek="on_return",
            relost_stack="chips",
            blank_count=None,
        ),
        replace(
            _MANUAL,
            name="revised",
            turn_needs_treasure=False,
            home_empty_handed="barred",
            barred_release="never_this_dive",
            drop_sequence="farthest_first",
            top_up_tail_piles=True,
            relost_stack="chips",
            tiebreak="lexicographic",
            blank_count=None,
        ),
        replace(
            _MANUAL,
            name="publisher",
            turn_needs_treasure=False,
            home_empty_handed="barred",
            barred_release="on_pickup",
            owner_peek="on_return",
            drop_sequence="farthest_first",
            blank_count=16,
        ),
    )
}
"""The five published rule texts, by name."""


def preset(name: object) -> RuleSet:
    """Return the preset of that name. Raise `InvalidRules`, which names the nearest one."""
    if isinstance(name, str) and name in PRESETS:
        return PRESETS[name]
    near = difflib.get_close_matches(str(name), PRESETS, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PRESETS)}"
    raise InvalidRules(f"no preset is called {name!r}; {hint}")


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    """Raise `InvalidRules` for the first key that is no option."""
    names = [option.name for option in OPTIONS]
    for key in options:
        if key not in names:
            near = difflib.get_close_matches(str(key), names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidRules(f"unknown option {key!r}{hint}")
