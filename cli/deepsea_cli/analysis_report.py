"""Prints analyses of games: the decisions that lost something, sums, and where bots lose.

Invariant: the numbers are those of the analysis and its sums, nothing is estimated here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from deepsea_arena.analysis import (
    KINDS,
    AnalysedDecision,
    AnalysisSettings,
    BotSums,
    GameAnalysis,
    Lost,
    MarkedDive,
    SeatSums,
    by_bot,
    by_seat,
    mean,
)
from deepsea_arena.analysis_document import settings_data
from deepsea_arena.documents import to_object
from deepsea_arena.weaknesses import (
    FEWEST,
    WORTH,
    Deviation,
    Weakness,
    Weaknesses,
    find_weaknesses,
    games_of_bots,
    phrase_of,
)
from deepsea_cli.next_steps import STDIN, print_look, print_try
from deepsea_cli.output import Column, count, counted, echo, grid, print_command, print_json
from deepsea_referee.workbench.replay import game_at
from deepsea_rules import narration
from deepsea_rules.game import GameRecord, RecordSeat
from deepsea_rules.printable import printable
from deepsea_rules.ruleset import DIVES, SEAT_LETTERS
from deepsea_sdk.coach.decisions import MARKS, Estimate, Judgement
from deepsea_sdk.coach.roll_outs import COACH_VERSION

WORST = 10
"""How many decisions of many games are shown."""
LUCKY = 0.10
"""The luck of a roll or of a reveal that is shown, if that is sure."""
WEAKNESSES_FORMAT = "deepsea-weaknesses/1"


def report(analyses: Sequence[GameAnalysis], settings: AnalysisSettings, *, show_all: bool) -> None:
    """Print one game with its decisions, or the sums of many and their worst decisions."""
    if len(analyses) == 1:
        report_game(analyses[0], settings, show_all=show_all)
        click.echo()
        echo("one game proves little: name many records, or a folder, for the sums of each bot")
        return
    echo(f"{len(analyses)} games, {_method(settings)}")
    click.echo()
    _print_bots(by_bot(analyses, settings.seat), settings)
    if show_all:
        for analysis in analyses:
            click.echo()
            echo(f"{analysis.name}: {narration.title(analysis.record)}")
            for decision in analysis.decisions:
                print_decision(decision, analysis)
        return
    _print_worst(analyses)


def _print_worst(analyses: Sequence[GameAnalysis]) -> None:
    """Print the worst decisions, and the worst dives."""
    marked = [
        (decision, analysis)
        for analysis in analyses
        for decision in analysis.decisions
        if decision.judged.mark
    ]
    marked.sort(key=lambda entry: -entry[0].judged.regret.low)
    shown = marked[:WORST]
    if shown:
        click.echo()
        echo(f"the worst of {len(marked)} marked decisions")
    for decision, analysis in shown:
        click.echo()
        print_decision(decision, analysis)
        if analysis.name != STDIN:
            print_command("deepsea-referee", "show", analysis.name, "--at", str(decision.number))
        print_try(analysis.name, analysis.record, decision.number, decision.judged.best)
    dives = [(dive, analysis) for analysis in analyses for dive in analysis.marked_dives]
    dives.sort(key=lambda entry: -entry[0].loss.low)
    if dives:
        click.echo()
        echo(f"the worst of {len(dives)} dives that lost more than a mark of theirs says")
    for dive, analysis in dives[:WORST]:
        print_dive(dive, analysis, f"{analysis.name}, ")


def _method(settings: AnalysisSettings, policy: str = COACH_VERSION) -> str:
    effort = settings.effort
    how = f"to ±{effort.precision:g}" if effort.precision else f"{effort.most} for each option"
    return f"placement scores by roll-outs of {policy}, {how}"


# One game


def report_game(
    analysis: GameAnalysis,
    settings: AnalysisSettings,
    *,
    show_all: bool,
    policy: str = COACH_VERSION,
) -> None:
    """Print a game with its decisions; `policy` is that of the roll-outs, with its version."""
    echo(narration.title(analysis.record))
    echo(_method(settings, policy))
    shown = [one for one in analysis.decisions if show_all or one.judged.mark]
    for decision in shown:
        click.echo()
        print_decision(decision, analysis)
    if not shown:
        click.echo()
        echo("no decision has a mark")
    for dive in analysis.marked_dives:
        click.echo()
        print_dive(dive, analysis)
    click.echo()
    _print_seats(
        [sums for sums in by_seat(analysis) if settings.seat in (None, sums.seat)], settings
    )
    if analysis.chances:
        _print_luck(analysis, LUCKY if not show_all else LUCKY / 2)


def print_decision(decision: AnalysedDecision, analysis: GameAnalysis) -> None:
    """Print a decision with what each option is worth."""
    judged = decision.judged
    seat = decision.seat
    mark = f"  {judged.mark}" if judged.mark else ""
    fault = f" ({decision.fault})" if decision.fault else ""
    echo(
        f"decision {decision.number}, turn {decision.turn}, dive {judged.dive}: "
        f"{SEAT_LETTERS[seat]} {analysis.record.seats[seat].name} to {judged.kind}{fault}{mark}"
    )
    # As its seat knew it; not wrapped, because it is there to be copied to `explain`.
    click.echo(f"  {game_at(analysis.record, decision.number).view(seat)}")
    wide = max(len(option.action) for option in judged.options)
    for option in judged.options:
        note = _played(judged) if option.action == judged.played else ""
        click.echo(f"  {option.action:{wide}}  {_with_error(option.score)}{note}")


def print_dive(dive: MarkedDive, analysis: GameAnalysis, where: str = "") -> None:
    """Print a dive with a mark; `where` begins the line."""
    bot = f"{SEAT_LETTERS[dive.seat]} {analysis.record.seats[dive.seat].name}"
    lost = f"lost {_with_error(dive.loss, 2)} in all its decisions"
    echo(f"{where}dive {dive.dive}: {bot} {lost}  {dive.mark}")


def _played(judged: Judgement) -> str:
    if judged.played == judged.best:
        return "  played"
    level = " ~" if judged.is_level else ""
    return f"  played, {_with_error(judged.regret)} behind{level}"


def _with_error(interval: Estimate, digits: int = 3) -> str:
    return f"{interval.mean:.{digits}f} ±{interval.error:.{digits}f}"


def _print_seats(rows: Sequence[SeatSums], settings: AnalysisSettings) -> None:
    luck = [row.luck for row in rows]
    columns = [
        Column("seat", [SEAT_LETTERS[row.seat] for row in rows]),
        Column("bot", [row.bot.name for row in rows], text=True),
        *_columns([row.lost for row in rows]),
        Column("result", [f"{row.result:.2f}" for row in rows]),
    ]
    grid(*columns)
    if settings.luck:
        click.echo()
        grid(
            Column("luck", [SEAT_LETTERS[row.seat] for row in rows]),
            Column("own dice", [f"{one.own_dice.mean:+.2f}" if one else "-" for one in luck]),
            Column("others' dice", [f"{one.other_dice.mean:+.2f}" if one else "-" for one in luck]),
            Column("values", [f"{one.values.mean:+.2f}" if one else "-" for one in luck]),
            Column("result", [f"{row.result:.2f}" for row in rows]),
            Column("without luck", [_with_error(row.adjusted, 2) for row in rows if row.adjusted]),
        )


def _print_luck(analysis: GameAnalysis, least: float) -> None:
    """Print the rolls and reveals that moved a seat by so much."""
    shown = [
        event
        for event in analysis.chances
        if max(abs(luck.mean) - luck.error for luck in event.luck) > least
    ]
    if shown:
        click.echo()
        echo(f"luck of more than {least:.2f}")
    for event in shown:
        what = "values are revealed"
        if event.seat is not None and event.dice is not None:
            what = f"{SEAT_LETTERS[event.seat]} rolls {event.dice[0]}+{event.dice[1]}"
        moved = [
            f"{letter} {luck.mean:+.2f}"
            for letter, luck in zip(SEAT_LETTERS, event.luck, strict=False)
            if abs(luck.mean) >= 0.01
        ]
        click.echo(f"{event.turn:4} {what:19}  {', '.join(moved)}")


def _columns(rows: Sequence[Lost]) -> list[Column]:
    """What decisions lost."""
    return [
        Column("decisions", [str(row.decisions) for row in rows], spare=1),
        Column("lost", [_with_error(row.loss, 2) for row in rows]),
        Column("each", [f"{row.mean:.3f}" for row in rows], spare=2),
        *_marks(rows),
    ]


def _marks(rows: Sequence[Lost]) -> list[Column]:
    return [
        Column(name, [str(row.counts[index]) for row in rows])
        for index, (_, name) in enumerate(MARKS)
    ]


# Many games


def _print_bots(rows: Sequence[BotSums], settings: AnalysisSettings) -> None:
    names = [_name(row.bot, rows) for row in rows]
    grid(
        Column("bot", names, text=True),
        Column("games", [str(row.games) for row in rows], spare=1),
        Column("lost a game", [_mean(row.losses) for row in rows]),
        Column("each", [f"{row.lost.mean:.3f}" for row in rows], spare=2),
        *_marks([row.lost for row in rows]),
    )
    click.echo()
    grid(
        Column("lost a decision", names, text=True),
        *[Column(kind, [_each(row.kinds.get(kind)) for row in rows]) for kind in KINDS],
        *[
            Column(f"dive {dive}", [_each(row.dives.get(dive)) for row in rows])
            for dive in range(1, DIVES + 1)
        ],
    )
    click.echo()
    columns = [
        Column("placement score", names, text=True),
        Column("result", [_mean(row.results) for row in rows]),
    ]
    if settings.luck:
        columns.append(Column("without luck", [_mean(row.adjusted) for row in rows]))
    grid(*columns)


def _name(bot: RecordSeat, rows: Sequence[BotSums]) -> str:
    """The bot's name, with its version where others have the name."""
    alone = sum(row.bot.name == bot.name for row in rows) == 1
    return printable(bot.name if alone else f"{bot.name} {bot.digest[:8]}")


def _each(lost: Lost | None) -> str:
    return "-" if lost is None else f"{lost.mean:.3f}"


def _mean(numbers: Sequence[float]) -> str:
    found = mean(numbers)
    if found is None:
        return "-"
    return f"{found.mean:.2f}" + (f" ±{found.error:.2f}" if len(numbers) > 1 else "")


# Where bots lose


def report_weaknesses(
    analyses: Sequence[GameAnalysis],
    before: Sequence[GameAnalysis],
    settings: AnalysisSettings,
    *,
    as_json: bool,
) -> None:
    """Print where each bot loses, or the one that was named.

    before  games of former versions, which are found by the names of their bots
    """
    doing = "looking for habits"
    former = {bot.name: games for bot, games in games_of_bots(counted(before, doing)).items()}
    found = [
        find_weaknesses(bot.name, games, former.get(bot.name, ()))
        for bot, games in games_of_bots(counted(analyses, doing)).items()
        if settings.bot in (None, bot.name) and (not former or bot.name in former)
    ]
    if as_json:
        print_json(
            {
                "format": WEAKNESSES_FORMAT,
                "policy": COACH_VERSION,
                **settings_data(settings),
                "bots": [to_object(one) for one in found],
            }
        )
        return
    echo(f"{count(len(analyses), 'game')}, {_method(settings)}")
    echo("what is lost by deciding otherwise than this policy; all lines are right with 95 %")
    records = {analysis.name: analysis.record for analysis in analyses}
    for one in found:
        print_weaknesses(one, records)


def print_weaknesses(found: Weaknesses, records: Mapping[str, GameRecord]) -> None:
    """Print where a bot loses, with the clearest positions, and what has changed.

    records  those of the games, by their names
    """
    click.echo()
    games = count(found.games, "game")
    if not found.weaknesses:
        echo(f"{found.bot}: no situation in which it surely loses, in {games}")
        if found.games < FEWEST:
            echo(f"it takes {FEWEST} games at least, and some tens to see what loses 0.05 a game")
    else:
        echo(f"{found.bot}, {games}, {count(found.tested, 'situation')} tested")
        rows = found.weaknesses
        grid(
            Column("situation", [row.situation for row in rows], text=True),
            Column("times a game", [f"{row.decisions:.1f}" for row in rows]),
            Column("lost a game", [f"{row.lost:.3f} ±{row.error:.3f}" for row in rows]),
        )
        for row in rows:
            _print_weakness(row, records)
    if found.before:
        _print_changes(found)


def _print_weakness(row: Weakness, records: Mapping[str, GameRecord]) -> None:
    from deepsea_cli.terminal_board import print_board_at

    click.echo()
    echo(f"{phrase_of(row, len(row.mostly))}, in {count(row.games, 'game')}")
    for place, position in enumerate(row.clearest):
        if not place:
            print_board_at(records[position.record], position.decision)
        _print_position(position, records, f"decision {position.decision}")
    if row.plan is not None:
        echo(
            f"  in {row.plans:.2f} dives a game these steps lose more than the mark of any one says"
        )
        _print_position(row.plan, records, f"from decision {row.plan.decision} on")


def _print_position(position: Deviation, records: Mapping[str, GameRecord], where: str) -> None:
    letter = SEAT_LETTERS[position.seat]
    echo(
        f"  {position.record}, {where}, dive {position.dive}: {letter} {position.played}, "
        f"{position.lost:.3f} ±{position.error:.3f} behind {position.policy}"
    )
    at = (position.record, records[position.record], position.decision)
    print_try(*at, position.policy)
    print_look(*at)


def _print_changes(found: Weaknesses) -> None:
    click.echo()
    among = f"{found.before} and {count(found.games, 'game')}, before and now"
    if not found.changes:
        echo(f"{found.bot}: no change by more than {WORTH} a game is sure, in {among}")
        return
    echo(f"{found.bot}: what has changed, in {among}")
    rows = found.changes
    grid(
        Column("situation", [row.situation for row in rows], text=True),
        Column("", ["worse" if row.more > 0 else "better" for row in rows], text=True),
        Column("lost before", [f"{row.before:.3f}" for row in rows]),
        Column("now", [f"{row.now:.3f}" for row in rows]),
        Column("change", [f"{row.more:+.3f} ±{row.error:.3f}" for row in rows]),
    )
