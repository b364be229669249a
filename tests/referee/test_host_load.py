"""Whose time it was: what the host takes is not charged, what the bot takes always is."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_referee.timing.decision_timer import TimedAnswer
from deepsea_referee.timing.host_load import (
    AGAIN_US,
    LONGEST_READY_US,
    Reading,
    charged_us,
    host_is_hopeless,
)
from deepsea_rules.faults import Fault
from deepsea_sdk._pb import play_pb2 as pb
from helpers.peers import Peer, Seat, ask, one_pass, run, seat

BUDGET_US = 100_000
NOTHING = Reading(0, 0, 0)


@pytest.mark.parametrize(
    ("after", "unread", "charged"),
    [
        pytest.param(Reading(100, 0, 0), 0, 100, id="it worked all the time"),
        pytest.param(Reading(0, 0, 0), 0, 100, id="it slept all the time"),
        pytest.param(Reading(20, 80, 0), 0, 20, id="it waited for a CPU"),
        pytest.param(Reading(20, 0, 80), 80, 20, id="its answer lay unread"),
        pytest.param(Reading(20, 0, 80), 0, 100, id="the referee waited, but for no answer"),
        pytest.param(Reading(20, 50, 0), 0, 50, id="it worked, waited and slept"),
        pytest.param(Reading(70, 90, 0), 0, 70, id="its threads made each other wait"),
        pytest.param(Reading(400, 90, 90), 90, 100, id="never more than has passed"),
        pytest.param(Reading(0, 80, 80), 80, 0, id="never less than nothing"),
    ],
)
def test_what_100_us_cost(after: Reading, unread: int, charged: int) -> None:
    assert charged_us(100, NOTHING, after, unread) == charged


def test_the_host_is_given_up_on_only_after_a_long_time() -> None:
    assert not host_is_hopeless(10 * BUDGET_US, BUDGET_US)
    assert not host_is_hopeless(10_000_000, BUDGET_US)
    assert host_is_hopeless(10_000_000 + BUDGET_US + 1, BUDGET_US)


class Host:
    """A host whose readings the test decides."""

    def __init__(self) -> None:
        self.reading = NOTHING
        self.readings = 0

        self.bot_ready: list[bool] = []
        self.referee_ready: list[bool] = []
        """What is found at the next looks; nobody is ready after that."""

    def cpu_us(self) -> int:
        return self.reading.cpu_us

    def read(self) -> Reading:
        self.readings += 1
        return self.reading

    def bot_is_ready(self) -> bool:
        return bool(self.bot_ready) and self.bot_ready.pop(0)

    def referee_is_ready(self) -> bool:
        return bool(self.referee_ready) and self.referee_ready.pop(0)


def question() -> pb.DecisionRequest:
    return pb.DecisionRequest(game_id="g", legal=["down", "back"], budget_us=BUDGET_US)


@pytest.mark.parametrize(
    ("after", "in_time"),
    [
        pytest.param(Reading(20_000, 180_000, 0), True, id="the bot waited for a CPU"),
        pytest.param(Reading(20_000, 0, 180_000), True, id="the referee did"),
        pytest.param(Reading(0, 0, 0), False, id="the bot slept"),
        pytest.param(Reading(200_000, 0, 0), False, id="the bot worked"),
        pytest.param(Reading(190_000, 180_000, 0), False, id="threads of the bot took its CPU"),
    ],
)
def test_past_the_wall_clock_the_reading_decides(
    tmp_path: Path, after: Reading, in_time: bool
) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            host = Host()
            it.session.gauge = host
            asked = ask(it.session, question(), BUDGET_US)
            request = await peer.request()
            it.clock.jump(BUDGET_US // 4 + 1)  # the first look
            host.reading = after
            it.clock.jump(200_000 - BUDGET_US // 4 - 1)
            assert asked.done() is not in_time
            await peer.answer(request, "back")
            if in_time:
                # Up to the first look the wall counts, then the work.
                assert await asked == TimedAnswer("back", BUDGET_US // 4 + 20_000)
            else:
                with pytest.raises(BotFault) as caught:
                    await asked
                assert caught.value.fault is Fault.TIMEOUT

    run(test())


def test_a_busy_host_gives_a_sleeper_no_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            host = Host()
            it.session.gauge = host
            asked = ask(it.session, question(), BUDGET_US)
            await peer.request()
            await one_pass()
            for _ in range(40):  # the referee waits for a CPU at every look, in vain
                it.clock.jump(10_000)
                host.reading = Reading(0, 0, host.reading.referee_waited_us + 10_000)
            with pytest.raises(BotFault) as caught:
                await asked
            assert caught.value.fault is Fault.TIMEOUT

    run(test())


@pytest.mark.parametrize("who", ["bot_ready", "referee_ready"])
def test_no_timeout_is_called_while_somebody_is_ready(tmp_path: Path, who: str) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            host = Host()
            it.session.gauge = host
            asked = ask(it.session, question(), BUDGET_US)
            request = await peer.request()
            await it.alarm_is_set()
            getattr(host, who).extend([True] * 10)
            it.clock.jump(BUDGET_US + AGAIN_US * 9)
            assert not asked.done()
            # Now the wait is over, and in the accounts.
            host.reading = Reading(20_000, BUDGET_US + AGAIN_US * 9, 0)
            await peer.answer(request, "back")
            assert (await asked).action == "back"

    run(test())


def test_who_is_ready_for_ever_has_a_timeout_all_the_same(tmp_path: Path) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            host = Host()
            it.session.gauge = host
            host.bot_ready = [True] * 1000
            asked = ask(it.session, question(), BUDGET_US)
            await peer.request()
            await it.alarm_is_set()
            it.clock.jump(BUDGET_US + LONGEST_READY_US)
            assert not asked.done()
            it.clock.jump(2 * AGAIN_US)
            fault = asked.exception()
            assert isinstance(fault, BotFault)
            assert fault.fault is Fault.TIMEOUT

    run(test())


def test_who_has_worked_too_long_is_ready_in_vain(tmp_path: Path) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            host = Host()
            it.session.gauge = host
            host.bot_ready = [True] * 1000
            asked = ask(it.session, question(), BUDGET_US)
            await peer.request()
            await it.alarm_is_set()
            it.clock.jump(BUDGET_US // 4 + 1)
            host.reading = Reading(BUDGET_US + 1, 0, 0)
            it.clock.jump(BUDGET_US)
            assert isinstance(asked.exception(), BotFault)

    run(test())


def test_a_quick_answer_is_never_measured(tmp_path: Path) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            host = Host()
            it.session.gauge = host
            await answered(it, peer)
            asked = ask(it.session, question(), BUDGET_US)
            request = await peer.request()
            it.clock.jump(BUDGET_US // 4 - 1)
            await peer.answer(request, "back")
            assert (await asked).us == BUDGET_US // 4 - 1
            assert not host.readings

    run(test())


def test_a_host_that_takes_everything_voids_the_game(tmp_path: Path) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            host = Host()
            it.session.gauge = host
            asked = ask(it.session, question(), BUDGET_US)
            await peer.request()
            await one_pass()  # the write has ended
            for _ in range(300):
                it.clock.jump(BUDGET_US // 2)
                waited = host.reading.bot_waited_us + BUDGET_US // 2
                host.reading = Reading(0, waited, 0)
            with pytest.raises(RefereeError, match="too busy"):
                await asked

    run(test())


def test_a_bot_is_frozen_between_its_turns_and_thawed_before_its_clock_starts(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            said: list[tuple[str, int]] = []
            it.session.freeze = lambda: said.append(("freeze", it.clock.now_us()))
            it.session.thaw = lambda: said.append(("thaw", it.clock.now_us()))
            await answered(it, peer)
            it.clock.jump(500)
            await answered(it, peer)
            assert said == [("thaw", 0), ("freeze", 0), ("thaw", 500), ("freeze", 500)]
            it.session.close("the end")
            await one_pass()
            assert said[-1] == ("thaw", 500)  # or it could not hear goodbye

    run(test())


def test_two_questions_at_once_freeze_only_after_the_second_answer(tmp_path: Path) -> None:
    async def test() -> None:
        async with seat(tmp_path) as it, it.peer() as peer:
            frozen: list[bool] = []
            it.session.freeze = lambda: frozen.append(True)
            asked = [ask(it.session, question(), BUDGET_US) for _ in range(2)]
            message = await peer.next()
            await peer.answer(message.requests[0], "down")
            await asked[0]
            assert not frozen
            await peer.answer(message.requests[1], "down")
            await asked[1]
            assert frozen

    run(test())


async def answered(it: Seat, peer: Peer) -> None:
    asked = ask(it.session, question(), BUDGET_US)
    request = await peer.request()
    await peer.answer(request, "down")
    await asked
