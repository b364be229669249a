"""A peer of a version to come against today's, in both directions: the game is the same."""

from __future__ import annotations

import pytest

from deepsea_rules.errors import InvalidRules
from deepsea_rules.events import Event
from deepsea_rules.game import Decision, Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.view import View
from deepsea_sdk import Bot, FaultNotice, GameEnd, GameInfo, wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.client import Player
from deepsea_sdk.wire import Hello
from helpers import newer
from helpers.in_loop import run
from helpers.scripted import end_of, request_of, start_of
from helpers.streams import MemoryStream, Table, last_legal

PRESET_NAMES = list(PRESETS)


def new_game(preset: str) -> Game:
    return Game(PRESETS[preset], 3, seed_from_text("newer peers"))


class Curious(Bot):
    """Takes what it can, and keeps the messages that it got."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def turn_back(self, view: View) -> bool:
        return view.me.load > 1

    def search(self, view: View) -> str:
        return view.legal[-1]

    def on_game_start(self, info: GameInfo) -> None:
        self.told.append(info)

    def on_event(self, event: Event) -> None:
        self.told.append(event)

    def on_fault(self, notice: FaultNotice) -> None:
        self.told.append(notice)

    def on_game_end(self, end: GameEnd) -> None:
        self.told.append(end)


class NewerReferee:
    """Plays a game with one bot in all seats, as a referee that has more to say."""

    def __init__(self, game: Game, *, is_newer: bool) -> None:
        self.bots: list[Curious] = []
        self._game = game
        self._is_newer = is_newer
        self._player = Player(self._new_bot)
        self._marks = [0] * game.players
        self._last_id = 0

    def _new_bot(self) -> Curious:
        self.bots.append(Curious())
        return self.bots[-1]

    def play(self) -> list[Decision]:
        game = self._game
        self._send(pb.PlayResponse(welcome=pb.Welcome(features=["telepathy"])))
        for seat in range(game.players):
            start = start_of(game, f"g{seat}", seat)
            if self._is_newer:
                start.rules.options.add(name="currents", value="strong")
            self._send(pb.PlayResponse(starts=[start]))
        while (question := game.pending()) is not None:
            seat = question.seat
            if self._is_newer:
                self._ask_what_is_new(seat)
            request = request_of(game, f"g{seat}", self._next_id(), self._marks[seat])
            self._marks[seat] = len(game.events)
            game.decide(self._ask(request).action)
        for seat in range(game.players):
            end = end_of(game, f"g{seat}", seat)
            data = wire.result_message(end, game.events[self._marks[seat] :])
            self._send(pb.PlayResponse.FromString(data))
        self._send(pb.PlayResponse(goodbye=pb.Goodbye()))
        assert self._player.done
        return game.decisions

    def _ask_what_is_new(self, seat: int) -> None:
        """A decision of a new kind, and a fault of a new kind for the answer."""
        request = request_of(self._game, f"g{seat}", self._next_id())
        request.kind = pb.DecisionKind.ValueType(newer.NEW_KIND)
        request.view.phase = pb.Phase.ValueType(newer.NEW_PHASE)
        request.legal[:] = ["pass", "bid:1", "bid:2"]
        answer = self._ask(request)
        assert (answer.action, answer.error) == ("pass", None)
        notice = pb.FaultNotice(
            request_id=request.request_id, fault=pb.Fault.ValueType(newer.NEW_FAULT), message="new"
        )
        self._send(pb.PlayResponse(faults=[notice]))

    def _ask(self, request: pb.DecisionRequest) -> wire.RequestAnswer:
        data = self._send(pb.PlayResponse(requests=[request]))
        assert data is not None
        (answer,) = wire.read_from_bot(data).answers
        assert answer.request_id == request.request_id
        return answer

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _send(self, message: pb.PlayResponse) -> bytes | None:
        data = message.SerializeToString()
        if self._is_newer:
            response = newer.message("PlayResponse").FromString(data)
            for part in (*response.requests, *response.results):
                weather = newer.message("Event")(weather=newer.message("WeatherEvent")())
                events = [*part.events]
                del part.events[:]
                part.events.extend(event for known in events for event in (weather, known))
                part.events.append(weather)
            data = newer.with_news(response).SerializeToString()
        answer = self._player.receive(pb.PlayResponse.FromString(data))
        return None if answer is None else answer.SerializeToString()


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_a_bot_plays_with_a_newer_referee_as_with_one_of_its_age(preset: str) -> None:
    theirs = NewerReferee(new_game(preset), is_newer=True)
    ours = NewerReferee(new_game(preset), is_newer=False)
    assert theirs.play() == ours.play()
    for one, other in zip(theirs.bots, ours.bots, strict=True):
        faults = [told for told in one.told if isinstance(told, FaultNotice)]
        assert faults
        assert {(fault.fault, fault.message) for fault in faults} == {("unknown", "new")}
        (start, *rest), (known_start, *known_rest) = one.told, other.told
        assert [told for told in rest if told not in faults] == known_rest
        # It plays, but it must not simulate, and gets the reason.
        assert isinstance(start, GameInfo)
        assert isinstance(known_start, GameInfo)
        assert start.rules.unknown_options == ("currents",)
        with pytest.raises(InvalidRules, match="currents"):
            Game(start.rules, 2, bytes(32))
        assert known_start.rules == PRESETS[preset]


class NewerStream(MemoryStream):
    """A stream to a bot that has more to say."""

    def put(self, data: bytes) -> None:
        request = newer.message("PlayRequest").FromString(data)
        super().put(newer.with_news(request).SerializeToString())


@pytest.mark.parametrize("preset", PRESET_NAMES)
def test_the_referee_plays_with_a_newer_bot_as_with_one_of_its_age(preset: str) -> None:
    async def played(stream: type[MemoryStream]) -> list[Decision]:
        game = new_game(preset)
        assert await Table([last_legal] * game.players, stream).play(game) == []
        return game.decisions

    assert run(played(NewerStream)) == run(played(MemoryStream))


def test_a_newer_hello_is_let_in() -> None:
    hello = newer.message("Hello")(token="t", features=["telepathy", "concurrent_games"])
    data = newer.with_news(newer.message("PlayRequest")(hello=hello)).SerializeToString()
    read = wire.read_from_bot(data)
    assert read.hello == Hello("t", frozenset({"telepathy", "concurrent_games"}))
    assert read.answers == []
