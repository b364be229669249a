"""Games of people against the ladder's bots: begun, decided, left and read by their person.

Invariants: whose a game is, is known by account, or by the cookie of a visitor; to others it is not
there until it has ended; visitors play only where the season says so.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence

from deepsea_arena.api.declarations import Done, LadderPart, method
from deepsea_arena.api.errors import ApiError, RefusalKind, refusal_of
from deepsea_arena.games import (
    PersonGameLine,
    PersonGameList,
    PersonGameReport,
    SeatText,
    person_game_line,
    person_game_report,
    read_record,
)
from deepsea_arena.seasons import find_season, open_seasons, preset_of
from deepsea_arena.standings import eligible, listed
from deepsea_ladder.accounts import Scope, address_prefix
from deepsea_ladder.errors import LadderError, NotOnLadder, PersonGameError
from deepsea_ladder.model import BotVersion, PersonGame, StoredSeason, TaskState
from deepsea_ladder.standings import by_standing
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import DEFAULT, MAX_PLAYERS, PRESETS, SEAT_LETTERS

RANDOM = "random"
HINT = "hint"
NEXT = "next"
LISTED = 50
"""The games of a person's list."""
_LATELY = 20
"""The games by which a person's strength is guessed."""
_FEW = 3
"""The opponents, unless another number is asked for."""


class PersonGameMethods(LadderPart):
    """The methods about games of people."""

    @method("POST", "/play")
    def play(
        self,
        *,
        bots: Sequence[str] = (),
        opponents: int = 0,
        rules: str = "",
        seat: str = "",
        season: str = "",
    ) -> PersonGameLine:
        """Begin a game of the caller, unrated, against one to five bots of a season, or without
        names as many of about the caller's strength; an author needs the scope submit."""
        found = self._season(season)
        self._check_may_play(found)
        versions = self._opponents(found, bots, opponents)
        rules = rules or _preset_of(found)
        if rules not in PRESETS:
            raise UserError(f"rules is one of {', '.join(PRESETS)}, not {quoted(rules, 40)}")
        chance = self.service.entropy()
        places = SEAT_LETTERS[: len(versions) + 1]
        chosen = places[chance[-1] % len(places)] if seat in ("", RANDOM) else seat
        if len(chosen) != 1 or chosen not in places:
            last = places[-1]
            raise UserError(
                f"seat is {RANDOM} or a letter from A to {last}, not {quoted(seat, 40)}"
            )
        name = base64.b32encode(chance[:10]).decode().lower()
        begun = self.store.person_games.begin(
            game_id=f"person-{name}",
            season_id=found.id,
            author_id=self.caller.author_id or None,
            visitor=self.caller.visitor or None,
            address=address_prefix(self.caller.address),
            rules=rules,
            seed=self.service.entropy(),
            seat=places.index(chosen),
            versions=[version.id for version in versions],
        )
        return person_game_line(begun)

    @method("GET", "/play")
    def person_games(self) -> PersonGameList:
        """List the games of the caller as a person, newest first."""
        games = tuple(map(person_game_line, self._own_games(LISTED)))
        try:
            found = self._season("")
            self._check_may_play(found)
        except (UserError, LadderError) as error:
            return PersonGameList(games, "", DEFAULT, str(refusal_of(error)))
        return PersonGameList(games, found.name, _preset_of(found), "")

    @method("GET", "/play/{game_id}")
    def watch_seat(self, *, game_id: str) -> Iterator[SeatText | None]:
        """Follow a game of the caller, as its seat sees it, from its present state to its end."""
        return self._steps_of(self._own_game(game_id, or_ended=True))

    @method("POST", "/play/{game_id}/answer")
    def decide(self, *, game_id: str, asked: int = 0, action: str = "") -> Done:
        """Answer the question with the number `asked`, by the key of a choice or a whole action."""
        from deepsea_arena.seat import PICKS, choosing_of  # loads the SDK

        game, host = self._own_game(game_id), self.service.host
        number, whole, found = asked // PICKS, None, choosing_of(game)
        if host is not None and action in (HINT, NEXT):
            if action == HINT and (found is None or found[0] != asked):
                raise PersonGameError("that question is past")
            host.request(game_id, action)
            return Done()
        if found is not None and found[0] == asked:
            try:
                whole = found[1].choose(action)
            except ValueError as error:
                raise UserError(f"action {quoted(action, 40)} is {error}") from None
        elif number == len(game.decisions) and found is not None:
            raise PersonGameError("that choice has been made already")
        picks = f"{game.answer or ''} {action}".strip()
        self.store.person_games.answer(game_id, number, whole or picks, whole=whole is not None)
        if host is not None and whole is not None:
            host.settle()
        return Done()

    @method("POST", "/play/{game_id}/leave")
    def leave(self, *, game_id: str, drop: bool = False) -> Done:
        """Leave a game: default actions are played to its end, or with `drop` it is void."""
        self._own_game(game_id)
        self.store.person_games.leave(game_id, drop=drop)
        if self.service.host is not None:
            self.service.host.settle()
        return Done()

    @method("GET", "/play/{game_id}/game")
    def person_game(self, *, game_id: str) -> PersonGameReport:
        """Describe a game of a person that is over, for everybody: its record, its analyses."""
        game = self.store.person_games.get(game_id)
        if game.state is not TaskState.DONE:
            raise NotOnLadder("there is no such game of a person")
        return person_game_report(self.store, game)

    # ----------------------------------------------------------------------------------- within

    def _season(self, name: str) -> StoredSeason:
        """The season of that name, or the newest open one, which pages show."""
        opened = open_seasons(self.store.seasons.all())
        return find_season(self.store, name or (opened[-1].name if opened else None))

    def _check_may_play(self, season: StoredSeason) -> None:
        """Raise ApiError if the caller may begin no game of the season."""
        if season.tournament is not None:
            raise UserError(f"season {season.name!r} is a tournament's: nobody plays its bots")
        if self.caller.author_id:
            if Scope.SUBMIT not in self.caller.scopes:
                raise ApiError(RefusalKind.DENIED, "this needs a token with the scope submit")
        elif not (self.caller.visitor and season.settings.play.visitors):
            raise ApiError(RefusalKind.UNAUTHENTICATED, "to play against these bots, log in")

    def _own_games(self, limit: int) -> list[PersonGame]:
        author_id, visitor = self.caller.author_id or None, self.caller.visitor or None
        if not (author_id or visitor):
            return []
        return self.store.person_games.of_person(author_id, visitor, limit)

    def _own_game(self, game_id: str, *, or_ended: bool = False) -> PersonGame:
        game = self.store.person_games.get(game_id)
        mine = (game.author_id or 0) == self.caller.author_id
        if not game.author_id:
            mine = mine and bool(game.visitor) and game.visitor == self.caller.visitor
        if not mine and not (or_ended and game.state is TaskState.DONE):
            raise NotOnLadder("there is no such game of a person")
        return game

    def _steps_of(self, game: PersonGame) -> Iterator[SeatText | None]:
        from deepsea_arena.seat import seat_document  # loads the SDK

        news = None
        while True:
            host = self.service.host
            fields = {} if host is None else host.fields(game.game_id)
            document = seat_document(game, self.store.now(), fields)
            text = SeatText(person_game_line(game), json.dumps(document))
            yield None if document["news"] == news else text
            if game.state.is_final and not fields:
                return
            news = document["news"]
            game = self.store.person_games.get(game.game_id)

    def _opponents(
        self, season: StoredSeason, bots: Sequence[str], opponents: int
    ) -> list[BotVersion]:
        """The versions that were chosen, or as many of about the person's strength."""
        entries = listed(self.store, season, eligible(self.store, season))
        ranked = [one.version for one in sorted(entries, key=by_standing) if one.is_current]
        if not bots:
            count = opponents or min(_FEW, len(ranked))
            if not 1 <= count <= min(MAX_PLAYERS - 1, len(ranked)):
                raise UserError(
                    f"you play against 1 to {MAX_PLAYERS - 1} bots; the season has {len(ranked)}"
                )
            at = self._strength(len(ranked))
            nearest = sorted(range(len(ranked)), key=lambda rank: abs(rank - at))
            return [ranked[rank] for rank in sorted(nearest[:count])]
        known = {version.bot.lower(): version for version in ranked}
        if missing := [bot for bot in bots if bot.lower() not in known]:
            raise UserError(f"bot {quoted(missing[0], 40)} does not play in season {season.name}")
        chosen = {bot.lower(): known[bot.lower()] for bot in bots}
        if not len(bots) == len(chosen) <= MAX_PLAYERS - 1:
            raise UserError(f"you play against 1 to {MAX_PLAYERS - 1} bots, each once")
        return list(chosen.values())

    def _strength(self, bots: int) -> int:
        """The rank that a person would have: the middle, better by each first place of its last
        games, worse by each last one."""
        rank = bots // 2
        for game in self._own_games(_LATELY):
            if game.record:
                placements = read_record(game.record).placements
                rank += (placements[game.seat] == max(placements)) - (placements[game.seat] == 1)
        return min(max(rank, 0), bots - 1)


def _preset_of(season: StoredSeason) -> str:
    """The preset of a season's rules, or the usual one."""
    found = preset_of(season.settings.rules.name)
    return found.name if found else DEFAULT
