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
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, NoReturn, TypeVar, get_args

from deepsea_ladder.errors import LadderError, SeasonError
from deepsea_ladder.rating.trueskill_fold import RatingParameters
from deepsea_rules.errors import InvalidRules
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
"""How bots are kept apart. There is no "auto": all games of a season are played alike."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_CLOCK = re.compile(r"[0-9a-z.+]{1,40}")


@dataclass(frozen=True, slots=True)
class BotLimits:
    """Limits of one bot, with all the processes that it makes."""

    memory_mib: int = 512
    """Memory of all its processes together."""
    processes: int = 64
    """Processes and threads together."""
    require_cgroups: bool = False
    """Refuse to play where no control groups enforce this and count CPU time."""

    def __post_init__(self) -> None:
        _check("limits", self, memory_mib=(16, 1_048_576), processes=(1, 10_000))


@dataclass(frozen=True, slots=True)
class PairingSettings:
    same_author: bool = False
    """Whether bots of one author may meet."""
    former_versions: bool = False
    """Whether the former versions of bots go on playing."""
    patience: float = 4.0
    """The longest wait of a bot, in fair intervals, plus one round of all bots."""
    provisional_games: int = 12
    """A bot with fewer games is provisional: it is always due, and leaves the order open."""

    def __post_init__(self) -> None:
        _check("pairing", self, patience=(1, 1000), provisional_games=(0, 10_000))

    def lacking(self, games: int) -> int:
        """The games that a bot lacks which has played so many; 0 if it is not provisional."""
        return max(0, self.provisional_games - games)


@dataclass(frozen=True, slots=True)
class PlaySettings:
    """The games of people against the season's bots."""

    visitors: bool = False
    """Whether people without an account may play, too."""
    silent_seconds: int = 120
    """After so long without an answer the default action is played."""

    def __post_init__(self) -> None:
        _check("play", self, silent_seconds=(10, 86_400))


@dataclass(frozen=True, slots=True)
class VerdictSettings:
    """The comparisons of new versions, each with its bot's former version and with a panel."""

    panel: tuple[str, ...] = ()
    """Names of bots of the ladder, also of withdrawn ones."""
    seats: int = 0
    """Bots at a table; 0: the most that the season has."""
    margin: float = 0.05
    """The largest difference in placement score that counts as none."""
    blocks: int = 2000
    """The most blocks of a comparison."""

    def __post_init__(self) -> None:
        _check("verdicts", self, blocks=(1, 100_000), margin=(0.001, 1))
        if self.seats:
            _check("verdicts", self, seats=(MIN_PLAYERS, MAX_PLAYERS))


def _check(where: str, settings: object, **ranges: tuple[float, float]) -> None:
    for name, (least, most) in ranges.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            raise SeasonError(f"{where}.{name} must lie between {least} and {most}, not {value}")


@dataclass(frozen=True, slots=True)
class Season:
    name: str
    """Lower-case letters, digits and hyphens; game ids begin with it."""
    rules: RuleSet = PRESETS[DEFAULT]
    seats: tuple[int, ...] = (USUAL_PLAYERS,)
    """How many bots may sit at a table, ascending."""
    clock: str = DEFAULT_CLOCK.format()
    """As the referee reads it; whoever makes a season has the referee look at it."""
    isolation: Isolation = "sandbox"
    packages: tuple[str, ...] = ()
    """Packages that bots may count on, as `name` or `name==version`, in order; the keeper of the
    ladder installs them, and whoever makes a season has the names looked at."""
    best_of_author: bool = False
    """Whether its standings have the best bot of each author only, and a tournament that names no
    bots is between these."""
    limits: BotLimits = field(default_factory=BotLimits)
    rating: RatingParameters = field(default_factory=RatingParameters)
    pairing: PairingSettings = field(default_factory=PairingSettings)
    play: PlaySettings = field(default_factory=PlaySettings)
    verdicts: VerdictSettings = field(default_factory=VerdictSettings)

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
        object.__setattr__(self, "seats", tuple(sorted(self.seats)))
        if not _CLOCK.fullmatch(self.clock):
            self._refuse(f"clock must look like 100ms+2s, not {self.clock!r}")
        if self.isolation not in get_args(Isolation):
            self._refuse(f"isolation is sandbox or process, not {self.isolation!r}")

    def _refuse(self, why: str) -> NoReturn:
        raise SeasonError(f"season {self.name}: {why}")

    def with_settings(self, changed: Mapping[str, Any]) -> Season:
        """The season with other settings, by names such as `clock` and `limits.memory_mib`."""
        season = self
        for name, value in changed.items():
            table, _, key = name.rpartition(".")
            own = (
                {table: replace(getattr(season, table), **{key: value})} if table else {key: value}
            )
            season = replace(season, **own)
        return season

    # JSON, as the store keeps it: always the whole rules, so that no later preset changes them

    def to_json(self) -> str:
        """One line; equal seasons give equal text."""
        rules = {"name": self.rules.name, "options": self.rules.options()}
        data = asdict(self) | {"rules": rules}
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Season:
        """Read back what `to_json` wrote; raises `SeasonError`."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SeasonError(f"a season's settings are no JSON: {error}") from None
        return cls._from(_table(data, "a season's settings"), _rules_from_options)

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
        return cls._from(data, _rules_from_toml)

    @classmethod
    def _from(cls, data: Mapping[str, Any], read_rules: Callable[[object], RuleSet]) -> Season:
        _refuse_unknown("", data, [item.name for item in fields(cls)])
        name = _text("name", data.get("name"))
        readers: dict[str, Callable[[str, Any], Any]] = {
            "rules": lambda _, rules: read_rules(rules),
            "seats": _numbers,
            "clock": _text,
            "isolation": _text,
            "packages": _texts,
            "best_of_author": _flag,
        } | {
            item.name: partial(_settings, item.default_factory)
            for item in fields(cls)
            if callable(item.default_factory)
        }
        try:
            given = {key: read(key, data[key]) for key, read in readers.items() if key in data}
        except (InvalidRules, LadderError) as error:
            raise SeasonError(f"season {name}: {error}") from None
        return cls(name, **given)


_T = TypeVar("_T")


def _settings(kind: Callable[..., _T], where: str, data: object) -> _T:
    """The settings in a table, each of the type of its default."""
    table = _table(data, where)
    usual = asdict(kind())  # type: ignore[call-overload]
    _refuse_unknown(f"{where}.", table, list(usual))
    given: dict[str, Any] = {}
    for key, value in table.items():
        wanted = type(usual[key])
        if wanted is float and type(value) is int and abs(value) < 2**53:
            given[key] = float(value)
            continue
        if wanted is tuple:
            given[key] = _texts(f"{where}.{key}", value)
            continue
        if type(value) is not wanted:
            words = {float: "a number", int: "a whole number", bool: "true or false"}[wanted]
            raise SeasonError(f"{where}.{key} must be {words}, not {value!r}")
        given[key] = value
    return kind(**given)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise SeasonError(f"a season's {key} must be a text, not {value!r}")
    return value


def _numbers(key: str, value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(item) is not int for item in value):
        raise SeasonError(f"{key} must be a list of whole numbers such as [4], not {value!r}")
    return tuple(value)


def _texts(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or any(type(item) is not str for item in value):
        raise SeasonError(f"{key} must be a list of texts, not {value!r}")
    return tuple(value)


def _flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SeasonError(f"{key} must be true or false, not {value!r}")
    return value


def _rules_from_options(data: object) -> RuleSet:
    table = _table(data, "rules")
    _refuse_unknown("rules.", table, ["name", "options"])
    name = _text("rules.name", table.get("name"))
    return RuleSet.from_options(name, _table(table.get("options"), "rules.options"))


def _rules_from_toml(data: object) -> RuleSet:
    return preset(data) if isinstance(data, str) else RuleSet.from_table(_table(data, "rules"))


def _table(data: object, where: str) -> Mapping[str, Any]:
    if not isinstance(data, dict):
        raise SeasonError(f"{where} must be a table of settings, not {data!r}")
    return data


def _refuse_unknown(where: str, data: Mapping[str, Any], known: list[str]) -> None:
    for key in data:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise SeasonError(f"a season has no {where}{key}; {hint}")
