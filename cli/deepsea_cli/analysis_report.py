"""Output of analyses of games: decisions that lost something, sums, and the habits of bots.

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
    LossTotal,
    MarkedDive,
    SeatSums,
    mean,
    sums_by_bot,
    sums_by_seat,
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
from deepsea_cli.output import Column, count, echo, grid, print_command, print_json, with_progress
from deepsea_referee.workbench.replay import game_at
from deepsea_rules import narration
from deepsea_rules.game import GameRecord, RecordSeat
from deepsea_rules.printable import printable
from deepsea_rules.ruleset import DIVES, SEAT_LETTERS
from deepsea_sdk.coach.decisions import MARKS, Estimate, Judgement
from deepsea_sdk.coach.roll_outs import COACH_VERSION

WORST = 10
"""Largest number of decisions and of dives that are shown of many games."""
LUCKY = 0.10
"""Placement score that a roll or a reveal must surely have moved a seat by to be shown."""
WEAKNESSES_FORMAT = "deepsea-weaknesses/1"


def report(analyses: Sequence[GameAnalysis], settings: AnalysisSettings, *, show_all: bool) -> None:
    """Print the analysis of one game, or a table of the bots in many games and the worst decisions.

    show_all  True to print every decision, not only marked ones
    """
    if len(analyses) == 1:
        report_game(analyses[0], settings, show_all=show_all)
        click.echo()
        echo("one game proves little: name many records, or a folder, for the sums of each bot")
        return
    echo(f"{len(analyses)} games, {_method(settings)}")
    click.echo()
    _print_bots(sums_by_bot(analyses, settings.seat), settings)
    if show_all:
        for analysis in analyses:
            _print_all_decisions(analysis)
    else:
        _print_worst_decisions(analyses)
        _print_worst_dives(analyses)


def _print_all_decisions(analysis: GameAnalysis) -> None:
    click.echo()
    echo(f"{analysis.name}: {narration.title(analysis.record)}")
    for decision in analysis.decisions:
        print_decision(decision, analysis)


def _print_worst_decisions(analyses: Sequence[GameAnalysis]) -> None:
    """Print the decisions of all games that surely lost most, with commands to look at them."""
    marked = [
        (decision, analysis)
        for analysis in analyses
        for decision in analysis.decisions
        if decision.judged.mark
    ]
    # Worst first, by the low end of what the decision lost.
    marked.sort(key=lambda decision_and_game: -decision_and_game[0].judged.regret.low)
    if marked:
        click.echo()
        echo(f"the worst of {len(marked)} marked decisions")
    for decision, analysis in marked[:WORST]:
        click.echo()
        print_decision(decision, analysis)
        if analysis.name != STDIN:
            print_command("deepsea-referee", "show", analysis.name, "--at", str(decision.number))
        print_try(analysis.name, analysis.record, decision.number, decision.judged.best)


def _print_worst_dives(analyses: Sequence[GameAnalysis]) -> None:
    """Print the dives in which the losses of a seat's decisions together were largest."""
    dives = [(dive, analysis) for analysis in analyses for dive in analysis.marked_dives]
    # Worst first, by the low end of what the dive lost.
    dives.sort(key=lambda dive_and_game: -dive_and_game[0].loss.low)
    if dives:
        click.echo()
        echo(f"the worst of {len(dives)} dives that lost more than a mark of theirs says")
    for dive, analysis in dives[:WORST]:
        print_dive(dive, analysis, f"{analysis.name}, ")


def _method(settings: AnalysisSettings, policy: str = COACH_VERSION) -> str:
    """Return the line that says how decisions were judged, and how many roll-outs were made.

    policy  policy of the roll-outs with its version
    """
    effort = settings.effort
    # Either roll-outs go on until the error is small enough, or their number is fixed.
    size = f"to ±{effort.precision:g}" if effort.precision else f"{effort.most} for each option"
    return f"placement scores by roll-outs of {policy}, {size}"


# ----- One game


def report_game(
    analysis: GameAnalysis,
    settings: AnalysisSettings,
    *,
    show_all: bool,
    policy: str = COACH_VERSION,
) -> None:
    """Print a game with its decisions, sums and luck.

    show_all  True to print every decision, not only marked ones
    policy    policy of the roll-outs with its version
    """
    echo(narration.title(analysis.record))
    echo(_method(settings, policy))
    decisions = [decision for decision in analysis.decisions if show_all or decision.judged.mark]
    for decision in decisions:
        click.echo()
        print_decision(decision, analysis)
    if not decisions:
        click.echo()
        echo("no decision has a mark")
    for dive in analysis.marked_dives:
        click.echo()
        print_dive(dive, analysis)
    click.echo()
    _print_seats(
        [sums for sums in sums_by_seat(analysis) if settings.seat in (None, sums.seat)], settings
    )
    if analysis.chances:
        _print_luck(analysis, LUCKY / 2 if show_all else LUCKY)


def print_decision(decision: AnalysedDecision, analysis: GameAnalysis) -> None:
    """Print a decision: the position as its seat knew it, and the score of each legal action.

    A mark such as `?!` ends the first line if the action that was played surely lost something.
    """
    judged = decision.judged
    seat = decision.seat
    mark = f"  {judged.mark}" if judged.mark else ""
    fault = f" ({decision.fault})" if decision.fault else ""
    echo(
        f"decision {decision.number}, turn {decision.turn}, dive {judged.dive}: "
        f"{SEAT_LETTERS[seat]} {analysis.record.seats[seat].name} to {judged.kind}{fault}{mark}"
    )
    # Not wrapped, because the position is there to be copied to `explain`.
    click.echo(f"  {game_at(analysis.record, decision.number).view(seat)}")
    action_width = max(len(option.action) for option in judged.options)
    for option in judged.options:
        note = _note_on_played(judged) if option.action == judged.played else ""
        click.echo(f"  {option.action:{action_width}}  {_with_error(option.score)}{note}")


def print_dive(dive: MarkedDive, analysis: GameAnalysis, where: str = "") -> None:
    """Print what all decisions of a seat in a dive lost together; `where` begins the line."""
    bot = f"{SEAT_LETTERS[dive.seat]} {analysis.record.seats[dive.seat].name}"
    lost = f"lost {_with_error(dive.loss, 2)} in all its decisions"
    echo(f"{where}dive {dive.dive}: {bot} {lost}  {dive.mark}")


def _note_on_played(judged: Judgement) -> str:
    """Return the note beside the option that was played: how far it is behind the best one."""
    if judged.played == judged.best:
        return "  played"
    level = " ~" if judged.is_level else ""
    return f"  played, {_with_error(judged.regret)} behind{level}"


def _with_error(estimate: Estimate, digits: int = 3) -> str:
    return f"{estimate.mean:.{digits}f} ±{estimate.error:.{digits}f}"


def _print_seats(rows: Sequence[SeatSums], settings: AnalysisSettings) -> None:
    """Print what each seat of a game lost, and in a second table its luck, if it was measured."""
    letters = [SEAT_LETTERS[row.seat] for row in rows]
    results = [f"{row.result:.2f}" for row in rows]
    grid(
        Column("seat", letters),
        Column("bot", [row.bot.name for row in rows], text=True),
        *_loss_columns([row.loss_total for row in rows]),
        Column("result", results),
    )
    if settings.luck:
        click.echo()
        luck_rows = [_luck_cells(row) for row in rows]
        grid(
            Column("luck", letters),
            Column("own dice", [own_dice for own_dice, _, _, _ in luck_rows]),
            Column("others' dice", [other_dice for _, other_dice, _, _ in luck_rows]),
            Column("values", [values for _, _, values, _ in luck_rows]),
            Column("result", results),
            Column("without luck", [without_luck for _, _, _, without_luck in luck_rows]),
        )


def _luck_cells(row: SeatSums) -> tuple[str, str, str, str]:
    """Return a seat's luck by own dice, others' dice and values, and its result without luck.

    They are dashes if luck was not measured.
    """
    luck, without_luck = row.luck, row.adjusted
    if luck is None or without_luck is None:
        return "-", "-", "-", "-"
    return (
        _signed_mean(luck.own_dice),
        _signed_mean(luck.other_dice),
        _signed_mean(luck.values),
        _with_error(without_luck, 2),
    )


def _signed_mean(estimate: Estimate) -> str:
    return f"{estimate.mean:+.2f}"


def _print_luck(analysis: GameAnalysis, threshold: float) -> None:
    """Print the rolls and the reveals of values that changed what a seat could expect.

    threshold  placement score by which the expectation of a seat must surely have changed
    """
    lucky_events = [
        event
        for event in analysis.chances
        # The change is surely at least its estimate less the error of the estimate.
        if max(abs(luck.mean) - luck.error for luck in event.luck) > threshold
    ]
    if lucky_events:
        click.echo()
        echo(f"luck of more than {threshold:.2f}")
    for event in lucky_events:
        event_text = "values are revealed"
        if event.seat is not None and event.dice is not None:
            event_text = f"{SEAT_LETTERS[event.seat]} rolls {event.dice[0]}+{event.dice[1]}"
        luck_of_seats = [
            f"{letter} {luck.mean:+.2f}"
            for letter, luck in zip(SEAT_LETTERS, event.luck, strict=False)
            if abs(luck.mean) >= 0.01  # less would be printed as nearly 0
        ]
        click.echo(f"{event.turn:4} {event_text:19}  {', '.join(luck_of_seats)}")


def _loss_columns(rows: Sequence[LossTotal]) -> list[Column]:
    """Return the columns on the losses of decisions, with one row for each item of `rows`.

    They are the number of decisions, the sum and the mean of their losses, and the number of each
    mark. A narrow terminal shows no columns with `spare`.
    """
    return [
        Column("decisions", [str(row.decisions) for row in rows], spare=1),
        Column("lost", [_with_error(row.loss, 2) for row in rows]),
        Column("each", [f"{row.mean:.3f}" for row in rows], spare=2),
        *_marks(rows),
    ]


def _marks(rows: Sequence[LossTotal]) -> list[Column]:
    """Return a column for each mark, with the number of decisions that have it."""
    return [
        Column(name, [str(row.counts[index]) for row in rows])
        for index, (_, name) in enumerate(MARKS)
    ]


# ----- Many games


def _print_bots(rows: Sequence[BotSums], settings: AnalysisSettings) -> None:
    """Print three tables of the bots in many games: their losses, these by kind, and results."""
    names = [_name(row.bot, rows) for row in rows]
    grid(
        Column("bot", names, text=True),
        Column("games", [str(row.games) for row in rows], spare=1),
        Column("lost a game", [_mean(row.game_losses) for row in rows]),
        Column("each", [f"{row.loss_total.mean:.3f}" for row in rows], spare=2),
        *_marks([row.loss_total for row in rows]),
    )
    click.echo()
    grid(
        Column("lost a decision", names, text=True),
        *[Column(kind, [_mean_loss(row.kinds.get(kind)) for row in rows]) for kind in KINDS],
        *[
            Column(f"dive {dive}", [_mean_loss(row.dives.get(dive)) for row in rows])
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
    """Return a bot's name, with its digest if several programs have the name."""
    is_unique = sum(row.bot.name == bot.name for row in rows) == 1
    return printable(bot.name if is_unique else f"{bot.name} {bot.digest[:8]}")


def _mean_loss(lost: LossTotal | None) -> str:
    return "-" if lost is None else f"{lost.mean:.3f}"


def _mean(numbers: Sequence[float]) -> str:
    """Return the mean of numbers with half the width of its 95 % interval, such as "0.52 ±0.03".

    Return "-" if there are no numbers.
    """
    estimate = mean(numbers)
    if estimate is None:
        return "-"
    has_error = len(numbers) > 1  # one number has no spread
    error = f" ±{estimate.error:.2f}" if has_error else ""
    return f"{estimate.mean:.2f}{error}"


# ----- Habits


def report_weaknesses(
    analyses: Sequence[GameAnalysis],
    before: Sequence[GameAnalysis],
    settings: AnalysisSettings,
    *,
    as_json: bool,
) -> None:
    """Print the situations in which each bot loses, or only the bot that was named.

    before   games of former versions, which have the same names; with them only bots are printed
             that have such games
    as_json  True to print one JSON document
    """
    doing = "looking for habits"
    games_before = {
        bot.name: games for bot, games in games_of_bots(with_progress(before, doing)).items()
    }
    weaknesses_of_bots = [
        find_weaknesses(bot.name, games, games_before.get(bot.name, ()))
        for bot, games in games_of_bots(with_progress(analyses, doing)).items()
        if settings.bot in (None, bot.name) and (not games_before or bot.name in games_before)
    ]
    if as_json:
        print_json(
            {
                "format": WEAKNESSES_FORMAT,
                "policy": COACH_VERSION,
                **settings_data(settings),
                "bots": [to_object(weaknesses) for weaknesses in weaknesses_of_bots],
            }
        )
        return
    echo(f"{count(len(analyses), 'game')}, {_method(settings)}")
    echo("what is lost by deciding otherwise than this policy; all lines are right with 95 %")
    records = {analysis.name: analysis.record for analysis in analyses}
    for weaknesses in weaknesses_of_bots:
        print_weaknesses(weaknesses, records)


def print_weaknesses(weaknesses: Weaknesses, records: Mapping[str, GameRecord]) -> None:
    """Print the situations in which a bot surely loses, and how that changed since earlier games.

    records  records of the games by their paths
    """
    click.echo()
    games_text = count(weaknesses.games, "game")
    situations = weaknesses.weaknesses
    if situations:
        echo(f"{weaknesses.bot}, {games_text}, {count(weaknesses.tested, 'situation')} tested")
        grid(
            Column("situation", [row.situation for row in situations], text=True),
            Column("times a game", [f"{row.decisions:.1f}" for row in situations]),
            Column("lost a game", [f"{row.lost:.3f} ±{row.error:.3f}" for row in situations]),
        )
        for situation in situations:
            _print_weakness(situation, records)
    else:
        echo(f"{weaknesses.bot}: no situation in which it surely loses, in {games_text}")
        if weaknesses.games < FEWEST:
            echo(f"it takes {FEWEST} games at least, and some tens to see what loses 0.05 a game")
    if weaknesses.before:
        _print_changes(weaknesses)


def _print_weakness(weakness: Weakness, records: Mapping[str, GameRecord]) -> None:
    """Print a situation in which a bot loses, with the positions that show it most clearly.

    If several steps of a dive lose together, the first step of the clearest such dive follows.

    records  records of the games by their paths
    """
    from deepsea_cli.terminal_board import print_board_at

    click.echo()
    phrase = phrase_of(weakness, conditions=len(weakness.mostly))  # with all of them
    echo(f"{phrase}, in {count(weakness.games, 'game')}")
    if weakness.clearest:
        clearest = weakness.clearest[0]
        print_board_at(records[clearest.record], clearest.decision)
    for position in weakness.clearest:
        _print_position(position, records, f"decision {position.decision}")
    first_step = weakness.plan
    if first_step is not None:
        echo(
            f"  in {weakness.plans:.2f} dives a game these steps lose more than the mark of any "
            "one says"
        )
        _print_position(first_step, records, f"from decision {first_step.decision} on")


def _print_position(position: Deviation, records: Mapping[str, GameRecord], where: str) -> None:
    """Print a decision that lost against the policy's action, and commands to look at it.

    records  records of the games by their paths
    where    words for the decision in the line
    """
    path = position.record
    letter = SEAT_LETTERS[position.seat]
    echo(
        f"  {path}, {where}, dive {position.dive}: {letter} {position.played}, "
        f"{position.lost:.3f} ±{position.error:.3f} behind {position.policy}"
    )
    print_try(path, records[path], position.decision, position.policy)
    print_look(path, records[path], position.decision)


def _print_changes(weaknesses: Weaknesses) -> None:
    """Print the situations in which a bot surely loses more or less than in earlier games."""
    click.echo()
    games_text = f"{weaknesses.before} and {count(weaknesses.games, 'game')}, before and now"
    changes = weaknesses.changes
    if not changes:
        echo(f"{weaknesses.bot}: no change by more than {WORTH} a game is sure, in {games_text}")
        return
    echo(f"{weaknesses.bot}: what has changed, in {games_text}")
    grid(
        Column("situation", [change.situation for change in changes], text=True),
        Column("", ["worse" if change.more > 0 else "better" for change in changes], text=True),
        Column("lost before", [f"{change.before:.3f}" for change in changes]),
        Column("now", [f"{change.now:.3f}" for change in changes]),
        Column("change", [f"{change.more:+.3f} ±{change.error:.3f}" for change in changes]),
    )
