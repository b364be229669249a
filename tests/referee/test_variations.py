"""A game played on from a decision: the same before it, whatever comes after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deepsea_referee import in_process
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.errors import UserError
from deepsea_referee.match import MatchSettings
from deepsea_referee.workbench.replay import branch, futures, original_bots
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.randomness import seed_from_text
from helpers.programs import PATIENT


def recorded(*names: str) -> GameRecord:
    records: list[GameRecord] = []
    settings = MatchSettings(
        bots=[resolve(name) for name in names], hosting=PATIENT, seed=seed_from_text("branch")
    )
    in_process.run_match_in_process(settings, lambda _, record: records.append(record))
    return records[0]


GAME = recorded("greedy", "random", "cautious")
TAKE = next(i for i, d in enumerate(GAME.decisions) if d.action == "take")


def actions(record: GameRecord) -> list[tuple[int, str]]:
    return [(decision.seat, decision.action) for decision in record.decisions]


@pytest.mark.parametrize("at", [0, 1, 7, len(GAME.decisions) - 1])
def test_the_same_bots_play_the_same_game(at: int) -> None:
    # The random one too: it has drawn its lots for the decisions before.
    done = branch(GAME, at, original_bots(GAME, {}))
    assert done.first_other is None
    assert actions(done.record) == actions(GAME)
    assert done.record.final == GAME.final
    assert done.record.decisions[:at] == GAME.decisions[:at]


def test_other_bots_change_only_what_comes_after() -> None:
    at = 9
    done = branch(GAME, at, [resolve("heuristic")] * 3)
    assert done.record.decisions[:at] == GAME.decisions[:at]
    assert done.first_other is not None
    assert done.first_other >= at
    assert actions(done.record)[: done.first_other] == actions(GAME)[: done.first_other]
    verify(GameRecord.from_json(done.record.to_json()))
    assert [seat.name for seat in done.record.seats] == ["heuristic", "heuristic 2", "heuristic 3"]
    assert done.record.game_id == f"{GAME.game_id}-at-{at}"
    assert done.record.seed == GAME.seed


def test_the_attempt_stays_that_of_the_deal() -> None:
    assert branch(replace(GAME, attempt=1), 3, original_bots(GAME, {})).record.attempt == 1


def test_another_choice_is_made_where_it_is_wanted() -> None:
    done = branch(GAME, TAKE, original_bots(GAME, {}), "leave")
    assert done.first_other == TAKE
    assert done.record.decisions[TAKE].action == "leave"
    verify(done.record)


def test_futures_differ_by_their_dice_alone() -> None:
    bots = original_bots(GAME, {})
    scores = futures(GAME, TAKE, bots, None, 6)
    assert [len(seat) for seat in scores] == [6, 6, 6]
    assert all(sum(game) == pytest.approx(1.5) for game in zip(*scores, strict=True))
    assert len(set(zip(*scores, strict=True))) > 1
    assert futures(GAME, TAKE, bots, "take", 6) == scores  # which the bots decide anyway
    assert futures(GAME, TAKE, bots, "leave", 6) != scores


@pytest.mark.parametrize("action", ["fly", "drop:4", "back"])
def test_a_choice_that_is_not_legal_there_is_refused(action: str) -> None:
    with pytest.raises(UserError, match=f"--action at decision {TAKE}"):
        branch(GAME, TAKE, original_bots(GAME, {}), action)


def test_a_decision_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="there is no"):
        branch(GAME, len(GAME.decisions), original_bots(GAME, {}))


def test_faults_before_the_decision_stay() -> None:
    first = GAME.decisions[0]
    played = branch(GAME, 0, original_bots(GAME, {}), "leave").record
    assert first.action in ("take", "leave")
    faulty = played.decisions[0]._replace(fault=Fault.TIMEOUT, us=9, came="late")
    record = replace(played, decisions=(faulty, *played.decisions[1:]))
    verify(record)
    done = branch(record, 4, original_bots(GAME, {}))
    assert done.record.decisions[0] == faulty


def test_only_sample_bots_are_found_by_themselves() -> None:
    seats = (*GAME.seats[:2], GAME.seats[2]._replace(digest="00"))
    with pytest.raises(UserError, match="name a bot for each seat"):
        original_bots(replace(GAME, seats=seats), {})
