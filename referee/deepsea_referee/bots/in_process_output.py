"""What bots print that share this process, told apart by the bot that is being asked.

Invariants: it is kept, written and shown as that of bots with processes of their own; what a
bot's threads print while another one is asked is taken for the other's.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout

from deepsea_referee.bots.output import BotLog, OutputPlan, OutputTail
from deepsea_referee.bots.resolve import BotSpec


class InProcessOutput:
    """The output of all bots of a match in this process."""

    def __init__(self, bots: Sequence[BotSpec], plan: OutputPlan) -> None:
        self._plan = plan
        self._outputs = [plan.open(number, bot.name, 1) for number, bot in enumerate(bots)]
        self._tails = [(OutputTail(), OutputTail()) for _ in bots]
        self.bot = 0
        """The bot with the code that runs."""

    @contextmanager
    def redirected(self, bot: int = 0) -> Iterator[None]:
        """Take what is printed inside; `bot` prints first."""
        self.bot = bot
        with redirect_stdout(self._stream(0)), redirect_stderr(self._stream(1)):
            yield

    def logs(self, troubled: Container[int]) -> list[BotLog]:
        """Close the files; the end of the output of those bots, and which have files."""
        logs = []
        for number, (output, (stdout, stderr)) in enumerate(
            zip(self._outputs, self._tails, strict=True)
        ):
            output.close()
            texts = (stdout.text(), stderr.text()) if number in troubled else ("", "")
            if any(texts) or output.in_file:
                logs.append(BotLog(number, 1, *texts, self._plan.worker, output.in_file))
        return logs

    def _stream(self, which: int) -> io.TextIOWrapper:
        # With `buffer` and all, as a process has it.
        router = _Router(lambda data: self._take(which, data))
        return io.TextIOWrapper(router, "utf-8", "backslashreplace", "", write_through=True)

    def _take(self, which: int, data: bytes) -> None:
        self._tails[self.bot][which].take(data)
        if (sinks := self._outputs[self.bot].sinks()) is not None:
            sinks[which](data)


class _Router(io.BufferedIOBase):
    """A binary stream that only passes on what is written."""

    name = "output of a bot"

    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__()
        self._take = take

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        taken = bytes(data)  # type: ignore[call-overload]
        self._take(taken)
        return len(taken)
