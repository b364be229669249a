"""The client against a scripted referee: over real gRPC, and as a program of its own."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import grpc
import pytest

from attacks import raw
from deepsea_rules.events import Event
from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_rules.view import View
from deepsea_sdk import (
    Bot,
    ConnectionRejected,
    Fault,
    FaultNotice,
    GameEnd,
    GameInfo,
    IllegalAnswer,
    NotInMatch,
    SdkError,
    WireError,
    wire,
)
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.bot import NewBot
from deepsea_sdk.client import OPTIONS, Player, features_of, play
from deepsea_sdk.wire import decision_from_wire, fault_message
from helpers.in_loop import run
from helpers.scripted import (
    TOKEN,
    Peer,
    Script,
    play_with,
    play_with_itself,
    referee,
    request_of,
    start_bot,
    start_of,
    without_referee,
)
from helpers.tiers import daily


def a_game(text: str = "client", players: int = 2, rules: str = "manual") -> Game:
    return Game(PRESETS[rules], players, seed_from_text(text))


async def played(folder: Path, script: Script, bot: NewBot) -> None:
    """Let a bot play with a referee that follows the script."""
    async with referee(folder, script) as address:
        await play(bot, address, TOKEN)


class Diary(Bot):
    """Writes down every message that it gets; takes what it can, and turns with two units."""

    kept: list[Diary]

    def __init__(self) -> None:
        self.entries: list[object] = []
        self.kept.append(self)

    def on_game_start(self, info: GameInfo) -> None:
        self.entries.append(info)

    def on_event(self, event: Event) -> None:
        self.entries.append(event)

    def on_fault(self, notice: FaultNotice) -> None:
        self.entries.append(notice)

    def on_game_end(self, end: GameEnd) -> None:
        self.entries.append(end)

    def turn_back(self, view: View) -> bool:
        self.entries.append((view, (self.clock.budget, self.clock.bank)))
        return view.me.load > 1

    def search(self, view: View) -> str:
        self.entries.append((view, (self.clock.budget, self.clock.bank)))
        return view.legal[-1]


@pytest.fixture
def diaries(monkeypatch: pytest.MonkeyPatch) -> list[Diary]:
    kept: list[Diary] = []
    monkeypatch.setattr(Diary, "kept", kept, raising=False)
    return kept


# The stream


class Apart(Bot):
    concurrent_games = True


@pytest.mark.parametrize(
    ("bot", "features"),
    [
        (Bot, ["no_events"]),
        (Apart, ["concurrent_games", "no_events"]),
        (Diary, []),
        pytest.param(partial(Apart), [], id="a function may make any bot"),
    ],
)
async def test_a_bot_says_hello_with_what_it_can_do_and_what_it_does_not_need(
    tmp_path: Path, bot: NewBot, features: list[str]
) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()
        assert (peer.hello.token, list(peer.hello.features)) == (TOKEN, features)
        await peer.goodbye()

    async with referee(tmp_path, script) as address:
        await play(bot, address, TOKEN, features_of(bot))


def test_every_method_of_a_bot_may_run_an_event_loop(tmp_path: Path) -> None:
    called: list[str] = []
    game = a_game()

    async def note(method: str) -> None:
        called.append(method)

    class Async(Bot):
        def on_game_start(self, info: GameInfo) -> None:
            asyncio.run(note("on_game_start"))

        def decide(self, view: View) -> str:
            asyncio.run(note("decide"))
            return view.legal[0]

        def on_game_end(self, end: GameEnd) -> None:
            asyncio.run(note("on_game_end"))

    async def script(peer: Peer) -> None:
        await peer.welcome()
        await play_with_itself(peer, game, "g")
        await peer.goodbye()

    run(played(tmp_path, script, Async))
    starts, ends = ["on_game_start"] * 2, ["on_game_end"] * 2
    assert called == [*starts, *["decide"] * len(game.decisions), *ends]


def test_the_stream_has_no_deadline(tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        # gRPC's way of saying "never" is a very long time.
        assert peer.deadline is None or peer.deadline > 10**9
        await peer.welcome()
        await peer.goodbye()

    run(played(tmp_path, script, Bot))


@pytest.mark.parametrize(
    ("rules", "players"), daily(product(["manual", "guide"], [2, 6]), [("manual", 2), ("guide", 6)])
)
def test_whole_games_at_once_over_one_stream(
    tmp_path: Path, diaries: list[Diary], rules: str, players: int
) -> None:
    game = a_game("whole", players, rules)

    async def script(peer: Peer) -> None:
        await peer.welcome()
        await play_with_itself(peer, game, "whole")
        await peer.goodbye()

    run(played(tmp_path, script, Diary))
    assert game.state.phase == "over"
    assert len(diaries) == players
    # What a bot reads is what the referee wrote, for every seat and to the end.
    for seat, diary in enumerate(diaries):
        start, *_, end = diary.entries
        assert isinstance(start, GameInfo)
        assert isinstance(end, GameEnd)
        assert (start.seat, start.rules, start.commitment) == (seat, game.rules, game.commitment)
        assert (end.seat, end.seed, end.values) == (seat, game.seed, game.state.values)
        assert (end.points, end.placements) == game.result()
        kinds = [entry["event"] for entry in diary.entries if isinstance(entry, dict)]
        assert kinds == [event["event"] for event in game.events_for(seat)]


def test_requests_of_one_message_are_answered_in_one_message(tmp_path: Path) -> None:
    first, second = a_game("one"), a_game("two")

    async def script(peer: Peer) -> None:
        await peer.welcome()
        # The start of a game and its first request may come together.
        await peer.send(
            starts=[start_of(first, "one"), start_of(second, "two")],
            requests=[request_of(first, "one", 7), request_of(second, "two", 8)],
        )
        answers = await peer.answers()
        assert [answer.request_id for answer in answers] == [7, 8]
        await peer.goodbye()

    run(played(tmp_path, script, Bot))


def test_a_class_gives_every_game_a_bot_of_its_own(tmp_path: Path, diaries: list[Diary]) -> None:
    run(played(tmp_path, two_short_games, Diary))
    assert [len(diary.entries) for diary in diaries] == [3, 3]


async def two_short_games(peer: Peer) -> None:
    await peer.welcome()
    for name in ("one", "two"):
        game = a_game(name)
        await peer.send(starts=[start_of(game, name)])
        await peer.send(requests=[request_of(game, name, 1)])
        await peer.answers()
        await peer.send(results=[pb.GameResult(game_id=name, is_void=True)])
    await peer.goodbye()


def test_a_bot_knows_its_time_and_its_faults(tmp_path: Path, diaries: list[Diary]) -> None:
    game = a_game()
    notice = FaultNotice("g", 1, Fault.TIMEOUT, "too late", forfeit=False)

    async def script(peer: Peer) -> None:
        await peer.welcome()
        request = request_of(game, "g", 1)
        request.budget_us, request.bank_us = 5, 9
        await peer.send(starts=[start_of(game, "g")], requests=[request])
        await peer.answers()
        await peer.send(faults=pb.PlayResponse.FromString(fault_message(notice)).faults)
        await peer.goodbye()

    run(played(tmp_path, script, Diary))
    _, asked, told = diaries[0].entries
    assert isinstance(asked, tuple)
    assert asked[1] == (5e-6, 9e-6)
    assert told == notice


# The end of the stream


@pytest.mark.parametrize("code", [grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE])
def test_a_referee_that_stops_while_the_bot_thinks_is_no_error(
    tmp_path: Path, code: grpc.StatusCode
) -> None:
    game = a_game()

    async def script(peer: Peer) -> None:
        await peer.welcome()
        await peer.send(starts=[start_of(game, "g")], requests=[request_of(game, "g", 1)])
        await peer.refuse(code, "the referee stops")

    run(played(tmp_path, script, Bot))


def test_a_stream_that_is_closed_without_goodbye_is_no_error(tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.welcome()

    run(played(tmp_path, script, Bot))


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.FAILED_PRECONDITION]
)
def test_a_refusal_at_the_door_says_why(tmp_path: Path, code: grpc.StatusCode) -> None:
    async def script(peer: Peer) -> None:
        await peer.hear_hello()
        await peer.refuse(code, "because of this")

    with pytest.raises(ConnectionRejected, match=rf"{code.name}.*because of this"):
        run(played(tmp_path, script, Bot))


def test_a_stream_that_ends_at_the_door_is_no_match(tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        pass

    with pytest.raises(NotInMatch):
        run(played(tmp_path, script, Bot))


def test_nobody_at_the_address(tmp_path: Path) -> None:
    with pytest.raises(NotInMatch, match="nowhere"):
        run(play(Bot, f"unix:{tmp_path}/nowhere", TOKEN))


# The player, without a stream


@pytest.mark.parametrize(
    "message",
    [
        pb.PlayResponse(requests=[pb.DecisionRequest(game_id="what")]),
        pb.PlayResponse(results=[pb.GameResult(game_id="what")]),
        pb.PlayResponse(faults=[pb.FaultNotice(request_id=3, fault=pb.FAULT_TIMEOUT)]),
    ],
)
def test_a_game_that_has_not_begun(message: pb.PlayResponse) -> None:
    with pytest.raises(WireError, match=r"what|request 3"):
        Player(Bot).receive(message)


def test_a_game_that_is_over_is_forgotten() -> None:
    player, game = Player(Bot), a_game()
    over = pb.PlayResponse(results=[pb.GameResult(game_id="g", is_void=True)])
    player.receive(pb.PlayResponse(starts=[start_of(game, "g")]))
    player.receive(over)
    with pytest.raises(WireError):
        player.receive(over)


def test_nothing_is_answered_where_nothing_is_asked() -> None:
    player = Player(Bot)
    assert player.receive(pb.PlayResponse()) is None
    assert player.receive(pb.PlayResponse(starts=[start_of(a_game(), "g")])) is None
    assert not player.done
    assert player.receive(pb.PlayResponse(goodbye=pb.Goodbye())) is None
    assert player.done


class Unborn(Bot):
    def __init__(self) -> None:
        raise LookupError("not today")


class Unready(Bot):
    def on_game_start(self, info: GameInfo) -> None:
        raise LookupError("not today")


class Unheard(Bot):
    def on_event(self, event: Event) -> None:
        raise LookupError("not today")


class Undecided(Bot):
    asked = 0

    def search(self, view: View) -> str:
        self.asked += 1
        if self.asked == 1:
            raise LookupError("not today")
        return "leave"


def asked(player: Player, game: Game, number: int, since: int | None = 0) -> wire.RequestAnswer:
    """What the player answers to the pending question."""
    answer = player.receive(pb.PlayResponse(requests=[request_of(game, "g", number, since)]))
    assert answer is not None
    (decision,) = answer.decisions
    return decision_from_wire(decision)


@pytest.mark.parametrize(
    ("bot", "errors"),
    [
        pytest.param(Unborn, [True, True, True], id="its making: it never decides"),
        pytest.param(Unready, [True, False, False], id="the start: one decision"),
        pytest.param(Unheard, [True, False, False], id="an event: the decision after it"),
        pytest.param(Undecided, [True, False, False], id="a decision"),
    ],
)
def test_whatever_the_bot_raises_is_the_answer_and_the_game_goes_on(
    bot: type[Bot], errors: list[bool], capsys: pytest.CaptureFixture[str]
) -> None:
    player, game = Player(bot), a_game()
    player.receive(pb.PlayResponse(starts=[start_of(game, "g")]))
    for number, raised in enumerate(errors, 1):
        answer = asked(player, game, number, 0 if number == 1 else None)
        assert (answer.request_id, answer.error is not None) == (number, raised)
        if answer.error is not None:
            assert answer.error.startswith("Traceback")
            assert answer.error.endswith("LookupError: not today")
            assert "deepsea_sdk" not in answer.error
        else:
            assert answer.action == "leave"
    err = capsys.readouterr().err
    assert err.count("LookupError: not today\n") == 1


def test_what_a_hook_raises_between_decisions_is_the_next_answer() -> None:
    class Offended(Bot):
        def on_fault(self, notice: FaultNotice) -> None:
            raise LookupError(notice.game_id)

        def on_game_end(self, end: GameEnd) -> None:
            raise LookupError("nobody hears this")

    player, game = Player(Offended), a_game()
    player.receive(pb.PlayResponse(starts=[start_of(game, "g")]))
    assert asked(player, game, 1).error is None
    notice = pb.FaultNotice(request_id=1, fault=pb.FAULT_TIMEOUT)
    assert player.receive(pb.PlayResponse(faults=[notice])) is None
    assert (asked(player, game, 2).error or "").endswith("LookupError: g")
    assert asked(player, game, 3).error is None
    over = pb.PlayResponse(results=[pb.GameResult(game_id="g", is_void=True)])
    assert player.receive(over) is None


def test_a_view_that_makes_no_sense_is_not_an_error_of_the_bot() -> None:
    class Looking(Bot):
        def search(self, view: View) -> str:
            return view.legal[len(view.trail) % 2]

    player, game = Player(Looking), a_game()
    player.receive(pb.PlayResponse(starts=[start_of(game, "g")]))
    request = request_of(game, "g", 1)
    request.view.trail.append(300)
    with pytest.raises(WireError, match="stack"):
        player.receive(pb.PlayResponse(requests=[request]))


def test_an_illegal_answer_names_the_method() -> None:
    class Wrong(Bot):
        def search(self, view: View) -> str:
            return "drop:4"

    player, game = Player(Wrong), a_game()
    player.receive(pb.PlayResponse(starts=[start_of(game, "g")]))
    answer = asked(player, game, 1)
    assert answer.action == "drop:4"
    assert answer.error == "Wrong.search returned 'drop:4', which is not one of leave, take"


def test_the_clock_runs_from_the_arrival_of_the_request() -> None:
    class Slow(Bot):
        def search(self, view: View) -> str:
            left.append(self.clock.remaining())
            ticks.append(3.0)
            left.append(self.clock.remaining())
            return "leave"

    left: list[float] = []
    ticks = [0.0]
    player, games = Player(Slow, now=lambda: sum(ticks)), [a_game("a"), a_game("b")]
    requests = [request_of(game, f"g{n}", n) for n, game in enumerate(games)]
    for request in requests:
        request.budget_us, request.bank_us = 4_000_000, 6_000_000
    starts = [start_of(game, f"g{n}") for n, game in enumerate(games)]
    player.receive(pb.PlayResponse(starts=starts, requests=requests))
    # The second request has waited while the first one was decided.
    assert left == [10.0, 7.0, 7.0, 4.0]


def test_the_errors_of_many_games_fit_into_one_message() -> None:
    class Verbose(Bot):
        def decide(self, view: View) -> str:
            raise LookupError("x" * 100_000)

    player, games = Player(Verbose), [a_game(str(number)) for number in range(100)]
    answer = player.receive(
        pb.PlayResponse(
            starts=[start_of(game, f"g{n}") for n, game in enumerate(games)],
            requests=[request_of(game, f"g{n}", n + 1) for n, game in enumerate(games)],
        )
    )
    assert answer is not None
    assert len(answer.decisions) == 100
    assert all(decision.error for decision in answer.decisions)
    assert answer.ByteSize() < 64 * 1024


def test_every_error_is_an_sdk_error() -> None:
    errors = {NotInMatch, ConnectionRejected, WireError, IllegalAnswer}
    assert errors == set(SdkError.__subclasses__())


# As a program


async def one_question(peer: Peer) -> None:
    """Ask once, and be content if there is no answer."""
    await peer.welcome()
    game = a_game()
    await peer.send(starts=[start_of(game, "g")], requests=[request_of(game, "g", 1)])
    if await peer.answers():
        await peer.goodbye()


TALKATIVE = """
from deepsea_sdk import Bot, run

class Talkative(Bot):
    def search(self, view):
        print("what a view:", view.kind)
        return "take"

run(Talkative)
print("good night")
"""


def test_a_program_may_print_what_it_likes(tmp_path: Path) -> None:
    ended = run(play_with(TALKATIVE, tmp_path, one_question))
    assert ended == (0, "what a view: search\ngood night\n", "")


TIDY = """
import atexit, gc
from deepsea_sdk import Bot, run

frozen = gc.get_freeze_count()  # Python 3.12 begins with some
atexit.register(lambda: print(gc.get_freeze_count() > frozen))
run(Bot)
print(gc.get_freeze_count() - frozen)
"""


def test_a_program_ends_without_looking_for_garbage(tmp_path: Path) -> None:
    assert run(play_with(TIDY, tmp_path, one_question)) == (0, "0\nTrue\n", "")


WAITING = "from deepsea_sdk import Bot, run\nrun(Bot)\n"


def test_a_program_that_is_refused_says_so_in_one_line(tmp_path: Path) -> None:
    async def script(peer: Peer) -> None:
        await peer.hear_hello()
        await peer.refuse(grpc.StatusCode.UNAUTHENTICATED, "the token is not valid for this seat")

    status, stdout, stderr = run(play_with(WAITING, tmp_path, script))
    assert (status, stdout, len(stderr.splitlines())) == (1, "", 1)
    assert "the token is not valid for this seat" in stderr


def test_a_program_that_no_referee_started_says_so_in_one_line(tmp_path: Path) -> None:
    status, stdout, stderr = run(start_bot(WAITING, tmp_path))
    assert (status, stdout, len(stderr.splitlines())) == (2, "", 1)
    assert "referee" in stderr


@pytest.mark.parametrize("number", daily([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
async def test_a_program_that_is_stopped_is_quiet(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "a_bot.py"
    file.write_text(WAITING, encoding="utf-8")

    processes: list[Process] = []

    async def script(peer: Peer) -> None:
        await peer.welcome()
        processes[0].send_signal(number)
        assert await peer.answers() == []

    async with referee(tmp_path, script) as address:
        process = await create_subprocess_exec(
            sys.executable,
            str(file),
            stdout=PIPE,
            stderr=PIPE,
            env={**without_referee(), "DEEPSEA_ADDRESS": address, "DEEPSEA_TOKEN": TOKEN},
        )
        processes.append(process)
        stdout, stderr = await process.communicate()
    assert (process.returncode, stdout, stderr) == (-number, b"", b"")


async def test_a_referee_that_answers_no_ping_keeps_the_stream(tmp_path: Path) -> None:
    # As one that is stopped for a while, or as it looks to a bot that was frozen.
    often = ("grpc.keepalive_time_ms", 100)
    usual = (often, *OPTIONS, ("grpc.http2.ping_timeout_ms", 100))  # the first counts
    other = (often, ("grpc.http2.ping_timeout_ms", 400))
    address = f"unix:{tmp_path / 'seat'}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "seat"))
        listener.listen()
        async with (
            grpc.aio.insecure_channel(address, usual) as patient,
            grpc.aio.insecure_channel(address, other) as impatient,
        ):
            kept: Any = patient.stream_stream(raw.PLAY)()
            lost: Any = impatient.stream_stream(raw.PLAY)()
            peers = [(await asyncio.to_thread(listener.accept))[0] for _ in (kept, lost)]
            for peer in peers:
                peer.sendall(raw.frame(raw.SETTINGS))
            assert await lost.code() is grpc.StatusCode.UNAVAILABLE
            assert not kept.done()
            for peer in peers:
                peer.close()
