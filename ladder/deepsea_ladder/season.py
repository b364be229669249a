"""A season: all settings of its games and ratings.

Invariants: frozen, since games played under different settings are not compared; a round trip
through JSON loses nothing; an invalid setting is refused in one line that names the key.

    name = "summer"
    rules = "manual"            # a preset, or a table [rules] with name, base and [rules.options]
    seats = [4]                 # how many bots sit at a table; [2, 3, 4] mixes them
    clock = "100ms+2s"
    isolation = "sandbox"       # or "process", where all authors are trusted
    packages = ["numpy==2.1.0"] # what bots may count on beside the SDK, installed by the keeper
    best_of_author = true       # the standings have the best bot of each author

    [limits]                    # memory_mib, processes, require_cgroups
    [rating]                    # mu, sigma, beta, tau, draw_probability
    [pairing]                   # same_author, former_versions, patience,
                                # provisional_games
    [play]                      # visitors, silent_seconds: of people who play against its bots
    [verdicts]                  # panel, seats, margin, blocks: of new versions that are compared
                                # with former ones and with a panel
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, NoReturn, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, force_setattr, replace

from deepsea_ladder.errors import RatingError, SeasonError
from deepsea_ladder.rating import RatingParameters
from deepsea_rules.errors import InvalidRules
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import (
    DEFAULT,
    MAX_PLAYERS,
    MIN_PLAYERS,
    PRESETS,
    USUAL_PLAYERS,
    RuleSet,
    preset,
)
from deepsea_rules.time_control import DEFAULT_CLOCK

Isolation = Literal["sandbox", "process"]
"""Ways to keep bots apart. There is no "auto": all games of a season are played alike."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_CLOCK = re.compile(r"[0-9a-z.+]{1,40}")


class BotLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one bot, with all the processes that it makes."""

    memory_mib: Annotated[int, Meta(ge=16, le=1_048_576)] = 512
    """Memory of all its processes together."""
    processes: Annotated[int, Meta(ge=1, le=10_000)] = 64
    """Processes and threads together."""
    require_cgroups: bool = False
    """Refuse to play where no control groups enforce this and count CPU time."""


class PairingSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The choice of the bots that meet."""

    same_author: bool = False
    """True if bots of one author may meet."""
    former_versions: bool = False
    """True if the former versions of bots go on playing."""
    patience: Annotated[float, Meta(ge=1, le=1000)] = 4.0
    """The longest wait of a bot, in fair intervals, plus one round of all bots."""
    provisional_games: Annotated[int, Meta(ge=0, le=10_000)] = 12
    """A bot with fewer games is provisional: it is always due, and leaves the order open."""

    def lacking(self, games: int) -> int:
        """The games that a bot lacks which has played so many; 0 if it is not provisional."""
        return max(0, self.provisional_games - games)


class PlaySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The games of people against the season's bots."""

    visitors: bool = False
    """True if people without an account may play, too."""
    silent_seconds: Annotated[int, Meta(ge=10, le=86_400)] = 120
    """After so long without an answer the default action is played."""


class VerdictSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The comparisons of new versions, each with its bot's former version and with a panel."""

    panel: tuple[str, ...] = ()
    """Names of bots of the ladder, also of withdrawn ones."""
    seats: Annotated[int, Meta(ge=0, le=MAX_PLAYERS)] = 0
    """Bots at a table; 0: the most that the season has."""
    margin: Annotated[float, Meta(ge=0.001, le=1)] = 0.05
    """The largest difference in placement score that counts as none."""
    blocks: Annotated[int, Meta(ge=1, le=100_000)] = 2000
    """The most blocks of a comparison."""

    def __post_init__(self) -> None:
        if 0 < self.seats < MIN_PLAYERS:
            raise SeasonError(f"verdicts.seats must be 0 or from {MIN_PLAYERS}, not {self.seats}")
        keys = [*map(str.casefold, self.panel)]  # as bots are looked up
        for name, key in zip(self.panel, keys, strict=True):
            if keys.count(key) > 1:
                raise SeasonError(f"verdicts.panel names {quoted(name, 60)} twice")


class Season(Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of a season."""

    name: str
    """Lower-case letters, digits and hyphens; game ids begin with it."""
    rules: RuleSet = PRESETS[DEFAULT]
    seats: tuple[int, ...] = (USUAL_PLAYERS,)
    """Numbers of bots that may sit at a table, ascending."""
    clock: str = DEFAULT_CLOCK.format()
    """As the referee reads it; whoever makes a season has the referee look at it."""
    isolation: Isolation = "sandbox"
    packages: tuple[str, ...] = ()
    """Packages that bots may count on, as `name` or `name==version`, in order; the keeper of the
    ladder installs them, and whoever makes a season has the names looked at."""
    best_of_author: bool = False
    """True if its standings have the best bot of each author only, and a tournament that names no
    bots is between these."""
    limits: BotLimits = BotLimits()
    rating: RatingParameters = RatingParameters()
    pairing: PairingSettings = PairingSettings()
    play: PlaySettings = PlaySettings()
    verdicts: VerdictSettings = VerdictSettings()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise SeasonError(
                f"a season's name has up to 32 lower-case letters, digits and hyphens inside, "
                f"not {self.name!r}"
            )
        if PRESETS.get(self.rules.name, self.rules) != self.rules:
            self._refuse(
                f"the rules call themselves {self.rules.name!r} but differ from that preset; "
                "give them another name"
            )
        if not self.seats or len(set(self.seats)) != len(self.seats):
            self._refuse(f"seats names each number of seats once, not {list(self.seats)}")
        for count in self.seats:
            if not MIN_PLAYERS <= count <= MAX_PLAYERS:
                self._refuse(f"a table has {MIN_PLAYERS} to {MAX_PLAYERS} seats, not {count}")
        force_setattr(self, "seats", tuple(sorted(self.seats)))
        if not _CLOCK.fullmatch(self.clock):
            self._refuse(f"clock must look like 100ms+2s, not {self.clock!r}")

    def _refuse(self, why: str) -> NoReturn:
        raise SeasonError(f"season {self.name}: {why}")

    def with_settings(self, changed: Mapping[str, Any]) -> Season:
        """The season with other settings, by names such as `clock` and `limits.memory_mib`.

        Raises `SeasonError`.
        """
        data = msgspec.to_builtins(self) | {"rules": self.rules}
        for name, value in changed.items():
            table, _, key = name.rpartition(".")
            (data[table] if table else data)[key] = value
        return _season(data, lambda rules: rules)

    # JSON, as the store keeps it: always the whole rules, so that no later preset changes them

    def to_json(self) -> str:
        """One line; equal seasons give equal text."""
        rules = {"name": self.rules.name, "options": self.rules.options()}
        return msgspec.json.encode(asdict(self) | {"rules": rules}).decode()

    @classmethod
    def from_json(cls, text: str) -> Season:
        """Read back what `to_json` wrote; raises `SeasonError`."""
        try:
            data = msgspec.json.decode(text)
        except (ValueError, RecursionError) as error:
            raise SeasonError(f"a season's settings are no JSON: {error}") from None
        return _season(_table(data, "a season's settings"), _rules_from_options)

    # TOML, as people write it

    @classmethod
    def from_toml(cls, text: str, name: str | None = None, default: str | None = None) -> Season:
        """Read a season as people write it; what is left out has its default. `SeasonError`.

        name     what it is called whatever the file says
        default  what it is called if neither says anything
        """
        try:
            data = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise SeasonError(f"a season's file is no TOML: {error}") from None
        if name is not None or ("name" not in data and default is not None):
            data["name"] = default if name is None else name
        return cls.from_table(data)

    @classmethod
    def from_table(cls, data: Mapping[str, Any]) -> Season:
        """Read a season as `from_toml` does, from settings that were parsed already."""
        return _season(data, _rules_from_toml)


# msgspec keeps a type from the moment in which it begins to look at it: a second thread that reads
# one meanwhile ends the process. So it looks at them when a module is imported, here and elsewhere.
msgspec.json.Decoder(Season)


def _season(data: Mapping[str, Any], read_rules: Callable[[Any], RuleSet]) -> Season:
    """The season with these settings, of which the rules are read by a function of their own."""
    others = {key: value for key, value in data.items() if key != "rules"}
    try:
        season = msgspec.convert(others, Season)
    except msgspec.ValidationError as error:
        raise SeasonError(_refusal(str(error), data)) from None
    except RatingError as error:
        raise SeasonError(f"season {data.get('name')}: {error}") from None
    if "rules" not in data:
        return season
    try:
        return replace(season, rules=read_rules(data["rules"]))
    except InvalidRules as error:
        raise SeasonError(f"season {season.name}: {error}") from None


_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "array": "a list",
    "object": "a table of settings",
}
"""The names of types in the words of msgspec, and in words for people."""
_KIND = re.compile(r"Expected `(\w+)[^`]*`(?: ([<>])= ([\d.]+))?")


def _refusal(error: str, data: Mapping[str, Any]) -> str:
    """One line that names the setting, its value and what is allowed, from msgspec's words."""
    words, _, path = error.partition(" - at `$")
    key = path.strip(".`")
    if "missing" in words:
        return "a season needs a name"
    if "unknown field" in words:
        known = (attrgetter(key)(Season("any")) if key else Season).__struct_fields__
        unknown = words.split("`")[1]
        near = difflib.get_close_matches(unknown, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"a season has no {key + '.' if key else ''}{unknown}; {hint}"
    value: Any = data
    for part in re.findall(r"\w+", key):
        value = value[int(part) if isinstance(value, list | tuple) else part]
    if kind := _KIND.match(words):
        side = {"<": "most", ">": "least"}.get(kind[2])
        bound = f" of at {side} {kind[3].removesuffix('.0')}" if side else ""
        return f"{key} must be {_KINDS[kind[1]]}{bound}, not {quoted(value, 60)}"
    if words.startswith("Invalid enum value"):
        return f"{key} is {' or '.join(get_args(Isolation))}, not {quoted(value, 60)}"
    return f"{key}: {words}"


def _rules_from_options(data: object) -> RuleSet:
    table = _table(data, "rules")
    if table.keys() != {"name", "options"} or not isinstance(table["name"], str):
        raise SeasonError("rules must be a table with a name and options")
    return RuleSet.from_options(table["name"], _table(table["options"], "rules.options"))


def _rules_from_toml(data: object) -> RuleSet:
    return preset(data) if isinstance(data, str) else RuleSet.from_table(_table(data, "rules"))


def _table(data: object, where: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise SeasonError(f"{where} must be a table of settings, not {data!r}")
    return data
