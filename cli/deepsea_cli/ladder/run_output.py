"""Progress, messages and summary of the commands that play the ladder's games."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsea_arena.play.shutdown import Stop, StopRequest
from deepsea_cli.errors import DONE, NEGATIVE, Interrupted
from deepsea_cli.ladder.tables import count
from deepsea_cli.output import echo, print_error
from deepsea_cli.progress import Progress

if TYPE_CHECKING:
    from deepsea_arena.runs import RunReport
    from deepsea_arena.settled import OrderReport
    from deepsea_ladder.model.analyses import AnalysisState
    from deepsea_ladder.model.games import Receipt
    from deepsea_ladder.model.jobs import Job
    from deepsea_ladder.model.submissions import SubmissionState


class RunOutput:
    """Prints a run's progress (on a terminal) and problems (always) to stderr."""

    def __init__(self) -> None:
        self._progress: Progress | None = None
        self._void = 0

    def begins(self, season: str, games: int | None) -> None:
        """Start the progress of a run."""
        self.close()
        self._progress = Progress(games)

    def expects(self, order: OrderReport) -> None:
        """Say about how many games a run until the order is settled will take."""
        if order.most_games is None:
            games = f"at least {order.least_games:,} games, and some bots may be too close to tell"
        elif order.most_games > order.least_games:
            games = f"{order.least_games:,} to {order.most_games:,} games, fewer if bots differ"
        else:
            games = count(order.least_games, "game")
        print_error(f"until the order is settled: about {games} (by the ratings' uncertainty)")

    def taken_back(self, games: int) -> None:
        """Report leases of a killed run that are free again."""
        print_error(f"{count(games, 'game')} of a run that was killed will be played again")

    def checked(self, bot: str, author: str, state: SubmissionState, note: str) -> None:
        """Report the verdict on a submission."""
        print_error(f"submission of {author}, {bot or 'a bot'}: {state}, {note}")

    def analysed(self, game_id: str, state: AnalysisState, note: str) -> None:
        """Report an analysis that is done or has failed."""
        print_error(f"analysis of game {game_id}: {state}, {note}")

    def finished(self, job: Job, receipt: Receipt) -> None:
        """Report a result that was stored or refused."""
        from deepsea_ladder.model.games import ReceiptStatus

        if receipt.verdict is ReceiptStatus.REFUSED:
            print_error(f"the result of game {job.game_id} was refused: {receipt.reason}")
        for name in receipt.disabled:
            print_error(f"{name} is disabled")
        if self._progress is not None:
            note = f"{self._void} void" if self._void else ""
            self._progress.advance(receipt.verdict is ReceiptStatus.ACCEPTED, note)

    def failed(self, job: Job, reason: str) -> None:
        """Report a void game."""
        self._void += 1
        print_error(f"game {job.game_id} is void: {reason}")

    def trouble(self, message: str) -> None:
        """Report that the store or the workers are unavailable."""
        print_error(message)

    def close(self) -> None:
        """Clear the progress line."""
        if self._progress is not None:
            self._progress.close()


class TalkingStop(Stop):
    """Confirms a signal on stderr: not in the signal's handler, where nothing may be written."""

    def __init__(self) -> None:
        super().__init__()
        self._said = StopRequest.GO_ON

    def clear(self) -> None:
        super().clear()
        if self.wish is StopRequest.FINISH and self._said is StopRequest.GO_ON:
            print_error("finishing the games that are being played; Ctrl-C hands them back")
        self._said = self.wish


def print_report(report: RunReport) -> int:
    """Print a run's summary; returns the exit status. Raises `Interrupted` if it was stopped."""
    from deepsea_arena.play.runner import RunEnd

    extra = [
        f"{number} {words}"
        for number, words in (
            (report.void, "void"),
            (report.refused, "refused"),
            (report.duplicates, "played by others too"),
        )
        if number
    ]
    played = f"{count(report.accepted, 'game')} of season {report.season}"
    if report.ended is RunEnd.STOPPED:
        back = f", {report.handed_back} handed back" if report.handed_back else ""
        raise Interrupted(f"after {played}{back}; nothing is lost")
    echo(", ".join([f"{played} played", *extra]))
    for name in report.disabled:
        echo(f"{name} was disabled: see `ladder bot {name}` for the reason")
    match report.ended:
        case RunEnd.IN_VAIN:
            echo("too many games in a row failed: see `ladder status` for the reasons")
            return NEGATIVE
        case RunEnd.HOST:
            echo(f"this machine cannot play now: {report.trouble}")
            return NEGATIVE
        case RunEnd.CLOSED:
            echo(f"season {report.season} was closed")
        case RunEnd.NOTHING_LEFT if not report.accepted:
            echo("there was nothing to play")
            return NEGATIVE
    return DONE
