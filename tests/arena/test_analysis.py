"""Analyses of recorded games: by what seats knew, and their sums."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deepsea_arena.analysis import (
    Analysis,
    AnalysisSettings,
    ChanceEvent,
    GameAnalysis,
    findings,
    mean,
    steps_of,
    sums_by_bot,
    sums_by_seat,
)
from deepsea_arena.analysis_document import FORMAT, document, read_analysis
from deepsea_arena.documents import DocumentError
from deepsea_arena.frames import frames, with_analysis
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import GameRecord
from deepsea_rules.view import view_for
from deepsea_sdk.coach.decisions import Effort, Estimate
from helpers.commands import faulty, played, record_of

QUICK = AnalysisSettings(Effort.of(4), luck=2)
PAGE = Path(__file__).parents[2] / "docs" / "analyse.md"


def analysed(*records: GameRecord, settings: AnalysisSettings = QUICK) -> list[GameAnalysis]:
    named = [(f"{number}.json", record) for number, record in enumerate(records)]
    return Analysis(named, settings).run()


@pytest.fixture(scope="module")
def games() -> list[GameAnalysis]:
    """A game of two, and one of three with a seat that forfeits."""
    return analysed(record_of(played(players=2)), record_of(faulty()))


def test_every_decision_is_judged_and_every_roll_counted(games: list[GameAnalysis]) -> None:
    for analysis in games:
        decisions = analysis.record.decisions
        assert [one.number for one in analysis.decisions] == list(range(len(decisions)))
        for one, decision in zip(analysis.decisions, decisions, strict=True):
            assert (one.seat, one.judged.played, one.fault) == (
                decision.seat,
                decision.action,
                decision.fault,
            )
        turns = [event.turn for event in analysis.chances if event.dice]
        assert turns == list(range(1, len(turns) + 1))


def test_turns_are_those_of_the_frames(games: list[GameAnalysis]) -> None:
    for analysis in games:
        shown = frames(analysis.record)
        for one, row in zip(analysis.decisions, shown["decisions"], strict=True):
            begun = shown["frames"][row["at"]]["t"]
            assert one.turn == begun + (one.judged.kind == "declare")


def test_another_seed_is_another_random_stream(games: list[GameAnalysis]) -> None:
    (other,) = analysed(games[0].record, settings=replace(QUICK, seed="other"))
    assert other.decisions != games[0].decisions


def test_a_decision_is_judged_by_what_its_seat_knew() -> None:
    record = record_of(played("reference", 3))
    checked = 0
    for step in steps_of(record):
        state = step.before.state
        view = view_for(state, step.seat)
        if step.kind != "decision" or step.decision is None or step.decision % 7:
            continue
        # All values that the seat does not know change places within their level.
        values = list(state.values)
        for level in range(4):
            chips = range(8 * level + 1, 8 * level + 9)
            hidden = [chip for chip in chips if chip not in view.known]
            for chip, other in zip(hidden, hidden[::-1], strict=True):
                values[chip] = state.values[other]
        before = findings({0: step}, "label", QUICK)
        kept, state.values = state.values, tuple(values)
        assert findings({0: step}, "label", QUICK) == before
        checked += kept != state.values
        state.values = kept
    assert checked > 2


def test_a_decision_is_judged_with_what_only_its_seat_knew() -> None:
    changed = 0
    for step in steps_of(record_of(played("guide", 3))):
        state = step.before.state
        if step.kind != "decision" or changed:
            continue
        own, public = view_for(state, step.seat).known, view_for(state, None).known
        # A chip that it has seen alone is worth what another one of its level is.
        for chip in own.keys() - public.keys():
            level = range(chip - (chip - 1) % 8, chip - (chip - 1) % 8 + 8)
            other = max(set(level) - own.keys(), key=lambda one: abs(own[chip] - state.values[one]))
            values = list(state.values)
            values[chip], values[other] = values[other], values[chip]
            before = findings({0: step}, "label", QUICK)
            kept, state.values = state.values, tuple(values)
            changed += findings({0: step}, "label", QUICK) != before
            state.values = kept
    assert changed


# Another seed is another random stream: below.
@pytest.mark.release
def test_games_in_the_same_position_have_random_numbers_of_their_own() -> None:
    found: dict[object, list[object]] = {}
    for salt in "abcdefgh":
        record = record_of(played(players=2, salt=salt))
        first = record.decisions[0]
        dice = next(step.dice for step in steps_of(record) if step.kind == "roll")
        (analysis,) = analysed(record, settings=replace(QUICK, luck=0, seat=first.seat))
        position = (first.seat, first.action, dice and sum(dice))
        found.setdefault(position, []).append(analysis.decisions[0].judged)
    assert any(len(judged) > 1 for judged in found.values())
    assert all(len({*map(str, judged)}) == len(judged) for judged in found.values())


def test_luck_and_result_make_the_adjusted_result(games: list[GameAnalysis]) -> None:
    for analysis in games:
        rows = sums_by_seat(analysis)
        for row in rows:
            assert row.luck is not None
            assert row.adjusted is not None
            assert row.adjusted.mean == pytest.approx(row.result - row.luck.total.mean)
            assert row.adjusted.error == row.luck.total.error
        assert sum(row.luck.total.mean for row in rows if row.luck) == pytest.approx(0)
        assert [row.result for row in rows] == analysis.results


def test_own_dice_and_those_of_others() -> None:
    (analysis,) = analysed(record_of(played(players=2)), settings=replace(QUICK, luck=0))
    assert sums_by_seat(analysis)[0].luck is None
    chances = (
        ChanceEvent(1, 0, (1, 1), (Estimate(0.2, 0.3), Estimate(-0.2, 0.3))),
        ChanceEvent(2, 1, (3, 3), (Estimate(-0.1, 0.4), Estimate(0.1, 0.4))),
        ChanceEvent(2, None, None, (Estimate(0.05, 0.0), Estimate(-0.05, 0.0))),
    )
    rows = sums_by_seat(replace(analysis, chances=chances))
    assert [row.luck and (row.luck.own_dice, row.luck.other_dice) for row in rows] == [
        (Estimate(0.2, 0.3), Estimate(-0.1, 0.4)),
        (Estimate(0.1, 0.4), Estimate(-0.2, 0.3)),
    ]
    assert rows[0].luck is not None
    assert rows[0].luck.values.mean == 0.05
    assert tuple(rows[0].luck.total) == pytest.approx((0.15, 0.5))


def test_sums_of_a_bot_are_those_of_its_seats(games: list[GameAnalysis]) -> None:
    bots = {sums.bot.name: sums for sums in sums_by_bot(games)}
    assert list(bots) == ["greedy", "cautious", "random"]
    greedy = bots["greedy"]
    rows = [sums_by_seat(analysis)[0] for analysis in games]
    assert greedy.games == 2
    assert greedy.game_losses == [row.loss_total.loss.mean for row in rows]
    assert greedy.loss_total.decisions == sum(row.loss_total.decisions for row in rows)
    for parts in (greedy.kinds, greedy.dives):
        assert sum(part.decisions for part in parts.values()) == greedy.loss_total.decisions
        assert sum(part.loss.mean for part in parts.values()) == pytest.approx(
            greedy.loss_total.loss.mean
        )


def test_versions_of_a_bot_are_summed_apart(games: list[GameAnalysis]) -> None:
    record = games[0].record
    newer = replace(record, seats=(record.seats[0]._replace(digest="1" * 64), record.seats[1]))
    names = [sums.bot.name for sums in sums_by_bot([games[0], replace(games[0], record=newer)])]
    assert names == ["greedy", "cautious", "greedy"]


def test_the_error_of_a_mean_is_that_of_its_spread() -> None:
    found = mean([0.0, 1.0, 0.0, 1.0])
    assert found is not None
    assert (found.mean, round(found.error, 3)) == (0.5, 0.566)
    assert mean([]) is None


def test_one_seat_alone() -> None:
    settings = AnalysisSettings(Effort.of(2), seat=1)
    (analysis,) = analysed(record_of(played(players=2)), settings=settings)
    assert {one.seat for one in analysis.decisions} == {1}
    assert [sums.bot.name for sums in sums_by_bot([analysis], 1)] == ["cautious"]


def test_an_altered_record_is_named() -> None:
    record = replace(record_of(played(players=2)), points=(99, 0))
    with pytest.raises(InvalidRecord, match=r"0\.json: result\.points"):
        analysed(record)


# The document


def test_each_key_of_the_document_is_described(games: list[GameAnalysis]) -> None:
    data = document(games, QUICK)
    page = PAGE.read_text(encoding="utf-8")
    assert data["format"] == FORMAT

    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            own = {key for key in value if key.isidentifier()}
            return own.union(*map(keys, value.values()))
        return set().union(*map(keys, value)) if isinstance(value, list) else set()

    assert {key for key in keys(data) if f"`{key}`" not in page} == set()


def test_the_document_has_all_that_was_found(games: list[GameAnalysis]) -> None:
    data = document(games, QUICK)
    for game, analysis in zip(data["games"], games, strict=True):
        assert game["commitment"] == analysis.record.commitment
        assert len(game["decisions"]) == len(analysis.decisions)
        assert len(game["chances"]) == len(analysis.chances)
        for row in game["decisions"]:
            assert row["played"] in [option["action"] for option in row["options"]]
            assert all(option["rollouts"] == 4 for option in row["options"])
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_a_document_is_read_for_its_own_game_alone(games: list[GameAnalysis]) -> None:
    record = games[0].record
    read = read_analysis(json.dumps(document(games[:1], QUICK)))
    assert len(read.analysis(record).decisions) == len(record.decisions)
    assert read.settings == QUICK
    for other in (
        replace(record, game_id="another"),
        replace(record, commitment="0" * 64),
        replace(record, decisions=record.decisions[:-1]),
        replace(record, seats=(*record.seats, record.seats[0])),
    ):
        with pytest.raises(DocumentError, match="the analysis of another game"):
            read.analysis(other)


OLD = Path(__file__).parent / "goldens" / "analysis-1.json"


def test_an_old_document_is_read_and_so_is_one_with_new_keys() -> None:
    text = OLD.read_text(encoding="utf-8")
    record = record_of(played(players=2))
    old = read_analysis(text).analysis(record)
    assert [one.number for one in old.decisions] == list(range(len(record.decisions)))
    assert [event.dice for event in old.chances if event.dice]

    def grown(value: Any) -> Any:
        if isinstance(value, dict):
            return {"new": [1], **{name: grown(one) for name, one in value.items()}}
        return [grown(one) for one in value] if isinstance(value, list) else value

    assert read_analysis(json.dumps(grown(json.loads(text)))).analysis(record) == old


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "deepsea-analysis/2", r"'deepsea-analysis/2' - at `\$\.format`"),
        (["policy"], "a\x1bb", r"at `\$\.policy`"),
        (["rollouts"], 1, r">= 2 - at `\$\.rollouts`"),
        (["precision"], 2, r"at `\$\.precision`"),
        (["seat"], True, r"at `\$\.seat`"),
        (["games"], [], r"at `\$\.games`"),
        (["games", 0, "decisions", 2, "fault"], "luck", r"\.decisions\[2\]\.fault`"),
        (["games", 0, "decisions", 2, "kind"], "luck", r"\.decisions\[2\]\.kind`"),
        (["games", 0, "decisions", 1, "best"], "take\n", r"\.decisions\[1\]\.best`"),
        (["games", 0, "decisions", 0, "regret", "mean"], 1e9, r"\.regret\.mean`"),
        (["games", 0, "chances", 0, "dice"], [1, 4], r"\.chances\[0\]\.dice\[1\]`"),
    ],
)
def test_a_wrong_value_is_named_by_its_path(
    path: list[str | int], value: object, message: str
) -> None:
    data: Any = json.loads(OLD.read_text(encoding="utf-8"))
    part = data
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = value
    with pytest.raises(DocumentError, match=message) as told:
        read_analysis(json.dumps(data))
    assert "\n" not in str(told.value)


# Frames


LOSSES: list[tuple[float, float]] = [(0.03, 0.02)] * 4
"""What the decisions of a dive lost, with errors: none has a mark, together 0.12 ±0.04."""


@pytest.mark.parametrize(
    ("losses", "mark"),
    [
        (LOSSES, "?"),
        (LOSSES[1:], ""),
        (LOSSES * 2, "??"),
        ([(0.03, 0.07)] * 4, ""),
        ([*LOSSES, (0.15, 0.02)], "??"),
        ([*LOSSES[:1], (0.15, 0.02)], ""),
        ([(0.3, 0.02)], ""),
    ],
)
def test_a_dive_that_lost_more_than_the_mark_of_any_decision_has_a_mark(
    games: list[GameAnalysis], losses: list[tuple[float, float]], mark: str
) -> None:
    one, *_ = games[0].decisions
    options = tuple(replace(option, rollouts=50) for option in one.judged.options)
    decisions = [
        one._replace(
            number=number, judged=replace(one.judged, options=options, regret=loss, loss=loss)
        )
        for number, loss in enumerate([Estimate(*loss) for loss in losses])
    ]
    analysis = replace(games[0], decisions=tuple(decisions))
    found = [(dive.seat, dive.dive, dive.last, dive.mark) for dive in analysis.marked_dives]
    assert found == [(one.seat, one.judged.dive, len(losses) - 1, mark)] * bool(mark)
    assert not any(game.marked_dives for game in games)  # with four roll-outs
    found = document([analysis], QUICK)["games"][0]["dives"]
    assert [row["mark"] for row in found] == [mark] * bool(mark)


def test_frames_have_values_marks_and_luck(games: list[GameAnalysis]) -> None:
    for analysis in games:
        plain = frames(analysis.record)
        shown = with_analysis(plain, analysis)
        assert plain == frames(analysis.record)
        marks: list[str] = [one.judged.mark for one in analysis.decisions if one.judged.mark]
        marks += [dive.mark for dive in analysis.marked_dives]
        found = [mark["sign"] for mark in shown["marks"] if mark["kind"] == "judged"]
        assert sorted(found) == sorted(marks)
        assert all(row["judged"]["options"] for row in shown["decisions"])
        for seat, line in enumerate(shown["luck"]):
            assert len(line) == len(plain["frames"])
            assert line[-1] == pytest.approx(_total(analysis.chances, seat), abs=1e-3)


def _total(chances: Sequence[ChanceEvent], seat: int) -> float:
    return sum(event.luck[seat].mean for event in chances)
