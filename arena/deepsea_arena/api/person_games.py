"""The API's methods for games of people against the ladder's bots: begin, decide, leave and read.

Invariants: the person of a game is known by account, or by a visitor's cookie; for others the game
does not exist until it has ended; visitors play only where the season allows it.
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
from deepsea_arena.standings import listed, standings_candidates
from deepsea_ladder.accounts import Scope, address_prefix
from deepsea_ladder.errors import LadderError, NotOnLadder, PersonGameError
from deepsea_ladder.model import BotVersion, PersonGame, StoredSeason, TaskState
from deepsea_ladder.standings import by_standing
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted
from deepsea_rules.ruleset import DEFAULT, MAX_PLAYERS, PRESETS, SEAT_LETTERS

RANDOM = "random"
"""The value of `seat` for a seat by chance."""
HINT = "hint"
"""The action that requests a hint instead of deciding, where the server plays the game."""
NEXT = "next"
"""The action that requests the next game of a match instead of deciding."""
LISTED = 50
"""Maximum number of games in a person's list."""
_STRENGTH_GAMES = 20
"""Number of last games from which a person's strength is estimated."""
_DEFAULT_OPPONENTS = 3
"""Number of opponents unless the call says another one."""


class PersonGameMethods(LadderPart):
    """The methods for games of people."""

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
        """Begin an unrated game of the caller against one to five bots of a season.

        Without `bots` the opponents are `opponents` bots of about the caller's strength. An author
        needs a token with the scope submit.
        """
        chosen_season = self._season(season)
        self._check_may_play(chosen_season)
        if bots:
            versions = self._named_opponents(chosen_season, bots)
        else:
            versions = self._similar_opponents(chosen_season, opponents)
        rules = rules or _preset_of(chosen_season)
        if rules not in PRESETS:
            raise UserError(f"rules is one of {', '.join(PRESETS)}, not {quoted(rules, 40)}")
        chance = self.service.entropy()  # the last byte chooses a seat, the first ten name the game
        letters = SEAT_LETTERS[: len(versions) + 1]
        letter = letters[chance[-1] % len(letters)] if seat in ("", RANDOM) else seat
        if len(letter) != 1 or letter not in letters:
            last = letters[-1]
            raise UserError(
                f"seat is {RANDOM} or a letter from A to {last}, not {quoted(seat, 40)}"
            )
        name = base64.b32encode(chance[:10]).decode().lower()
        game = self.store.person_games.begin(
            game_id=f"person-{name}",
            season_id=chosen_season.id,
            author_id=self.caller.author_id or None,
            visitor=self.caller.visitor or None,
            address=address_prefix(self.caller.address),
            rules=rules,
            seed=self.service.entropy(),
            seat=letters.index(letter),
            versions=[version.id for version in versions],
        )
        return person_game_line(game)

    @method("GET", "/play")
    def person_games(self) -> PersonGameList:
        """List the games that the caller has played as a person, newest first.

        The list also says whether the caller may begin another game in the newest open season.
        """
        games = tuple(map(person_game_line, self._own_games(LISTED)))
        try:
            season = self._season("")
            self._check_may_play(season)
        except (UserError, LadderError) as error:  # the caller may not begin another game
            refusal = str(refusal_of(error))
            return PersonGameList(games, season="", rules=DEFAULT, refusal=refusal)
        return PersonGameList(games, season=season.name, rules=_preset_of(season), refusal="")

    @method("GET", "/play/{game_id}")
    def watch_seat(self, *, game_id: str) -> Iterator[SeatText | None]:
        """Follow a game of the caller, as its seat sees it, from its present state to its end."""
        return self._seat_states(self._own_game(game_id, or_ended=True))

    @method("POST", "/play/{game_id}/answer")
    def decide(self, *, game_id: str, asked: int = 0, action: str = "") -> Done:
        """Answer the question with the number `asked`, by the key of a choice or a whole action."""
        # Imported only here, since it loads the whole SDK.
        from deepsea_arena.seat import MOST_CHOICES, open_question

        game, host = self._own_game(game_id), self.service.host
        # A decision may need several questions: each decision has MOST_CHOICES numbers.
        decision_number = asked // MOST_CHOICES
        question = open_question(game)
        is_current = question is not None and question[0] == asked
        if host is not None and action in (HINT, NEXT):
            if action == HINT and not is_current:
                raise PersonGameError("that question is past")
            host.request(game_id, action)
            return Done()
        whole_action = None  # stays None while further questions of the decision follow
        if question is not None and is_current:
            try:
                whole_action = question[1].choose(action)
            except ValueError as error:
                raise UserError(f"action {quoted(action, 40)} is {error}") from None
        elif question is not None and decision_number == len(game.decisions):
            raise PersonGameError("that choice has been made already")
        picks = f"{game.answer or ''} {action}".strip()
        is_whole = whole_action is not None
        # The store refuses an answer to any other decision than the one that waits.
        self.store.person_games.answer(
            game_id, decision_number, whole_action or picks, whole=is_whole
        )
        if host is not None and is_whole:
            host.wait_for_question()  # so that the caller's next request finds the next question
        return Done()

    @method("POST", "/play/{game_id}/leave")
    def leave(self, *, game_id: str, drop: bool = False) -> Done:
        """Leave a game: default actions are played to its end; with `drop` it becomes void."""
        self._own_game(game_id)  # raises NotOnLadder for the game of another person
        self.store.person_games.leave(game_id, drop=drop)
        if self.service.host is not None:
            # The game is played in this process, and goes on at once: the host waits a short time
            # for the next decision, so that the caller sees the game after it has changed.
            self.service.host.wait_for_question()
        return Done()

    @method("GET", "/play/{game_id}/game")
    def person_game(self, *, game_id: str) -> PersonGameReport:
        """Describe a finished game of a person, for everybody: its record and its analyses."""
        game = self.store.person_games.get(game_id)
        if game.state is not TaskState.DONE:
            raise NotOnLadder("there is no such game of a person")
        return person_game_report(self.store, game)

    # ----------------------------------------------------------------------------------- within

    def _season(self, name: str) -> StoredSeason:
        """Return the season of that name; for "" the newest open one, as pages do."""
        seasons = open_seasons(self.store.seasons.all())
        newest = seasons[-1].name if seasons else None
        return find_season(self.store, name or newest)

    def _check_may_play(self, season: StoredSeason) -> None:
        """Raise ApiError or UserError if the caller may not begin a game in the season.

        Authors need the scope submit. Visitors need a cookie, by which their games are known, and
        a season that is open to visitors.
        """
        if season.tournament is not None:
            raise UserError(f"season {season.name!r} is a tournament's: nobody plays its bots")
        if self.caller.author_id:
            if Scope.SUBMIT not in self.caller.scopes:
                raise ApiError(RefusalKind.DENIED, "this needs a token with the scope submit")
            return
        has_cookie = bool(self.caller.visitor)
        if not (has_cookie and season.settings.play.visitors):
            raise ApiError(RefusalKind.UNAUTHENTICATED, "to play against these bots, log in")

    def _own_games(self, limit: int) -> list[PersonGame]:
        """Return the caller's games, newest first, at most `limit`."""
        author_id, visitor = self.caller.author_id or None, self.caller.visitor or None
        if not (author_id or visitor):
            return []
        return self.store.person_games.of_person(author_id, visitor, limit)

    def _own_game(self, game_id: str, *, or_ended: bool = False) -> PersonGame:
        """Return a game of the caller; with `or_ended` also a finished game of anybody.

        Raises NotOnLadder for a game of another person, as for a game that does not exist.
        """
        game = self.store.person_games.get(game_id)
        if self._is_own_game(game) or (or_ended and game.state is TaskState.DONE):
            return game
        raise NotOnLadder("there is no such game of a person")

    def _is_own_game(self, game: PersonGame) -> bool:
        """Return True if the caller plays in a game: by account, or as a visitor by cookie."""
        if game.author_id:
            return game.author_id == self.caller.author_id
        if self.caller.author_id or not game.visitor:
            return False
        return game.visitor == self.caller.visitor

    def _seat_states(self, game: PersonGame) -> Iterator[SeatText | None]:
        """Yield the state of a game as the person's seat sees it, until the game has ended.

        Yields None in place of a state that is the same as the last one.
        """
        from deepsea_arena.seat import seat_document  # here, since it loads the whole SDK

        last_news = None  # `news` of the last document, a checksum that differs after each change
        while True:
            # The host plays games in this process. It adds fields that the store does not have.
            host = self.service.host
            host_fields = {} if host is None else host.fields(game.game_id)
            document = seat_document(game, self.store.now(), host_fields)
            state = SeatText(person_game_line(game), json.dumps(document))
            yield None if document["news"] == last_news else state
            # A host may add fields, such as judgements, after the end of the game, too.
            if game.state.is_final and not host_fields:
                return
            last_news = document["news"]
            game = self.store.person_games.get(game.game_id)

    def _ranked_versions(self, season: StoredSeason) -> list[BotVersion]:
        """Return the current version of each bot that plays in a season, best first."""
        entries = listed(self.store, season, standings_candidates(self.store, season))
        return [entry.version for entry in sorted(entries, key=by_standing) if entry.is_current]

    def _named_opponents(self, season: StoredSeason, bots: Sequence[str]) -> list[BotVersion]:
        """Return the current versions of the bots with these names.

        Raises UserError for a bot that does not play in the season or is named twice, and for too
        many bots.
        """
        version_of_name = {
            version.bot.lower(): version for version in self._ranked_versions(season)
        }
        versions: dict[str, BotVersion] = {}
        for bot in bots:
            name = bot.lower()
            if name not in version_of_name:
                raise UserError(f"bot {quoted(bot, 40)} does not play in season {season.name}")
            versions[name] = version_of_name[name]
        has_repeats = len(versions) < len(bots)
        if has_repeats or len(bots) > MAX_PLAYERS - 1:
            raise UserError(f"you play against 1 to {MAX_PLAYERS - 1} bots, each once")
        return list(versions.values())

    def _similar_opponents(self, season: StoredSeason, count: int) -> list[BotVersion]:
        """Return `count` bots of about the caller's strength, best first.

        They are those whose ranks are nearest to the caller's estimated rank. 0 stands for the
        default number. Raises UserError for a number of bots that the season or a game has not.
        """
        ranked = self._ranked_versions(season)
        count = count or min(_DEFAULT_OPPONENTS, len(ranked))
        if not 1 <= count <= min(MAX_PLAYERS - 1, len(ranked)):
            raise UserError(
                f"you play against 1 to {MAX_PLAYERS - 1} bots; the season has {len(ranked)}"
            )
        own_rank = self._estimated_rank(len(ranked))
        ranks_by_distance = sorted(range(len(ranked)), key=lambda rank: abs(rank - own_rank))
        return [ranked[rank] for rank in sorted(ranks_by_distance[:count])]

    def _estimated_rank(self, bot_count: int) -> int:
        """Return the rank, from 0 for the best, that the caller would have among so many bots.

        It is the middle, one rank better for each win among the caller's last games, and one rank
        worse for each last place.
        """
        rank = bot_count // 2
        for game in self._own_games(_STRENGTH_GAMES):
            if game.record:
                placements = read_record(game.record).placements
                own_placement = placements[game.seat]
                # When all share the first place, both hold, and the rank stays as it is.
                if own_placement == max(placements):
                    rank += 1
                if own_placement == 1:
                    rank -= 1
        return min(max(rank, 0), bot_count - 1)


def _preset_of(season: StoredSeason) -> str:
    """Return the name of the preset of a season's rules; of rules without one, the default's."""
    preset = preset_of(season.settings.rules.name)
    return preset.name if preset else DEFAULT
