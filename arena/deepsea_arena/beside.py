"""Work of a runner in a thread of its own, beside its games.

Invariants: the thread has ended when the body has been left, however it was left; an error of the
store ends the run as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deepsea_arena.shutdown import Stop, StopRequest
from deepsea_ladder.errors import LadderError
from deepsea_referee.interrupts import on_signals


@contextmanager
def beside(
    work: Callable[[], object], end: Callable[[], object], stop: Stop, own: Stop
) -> Iterator[None]:
    """Do `work` in a thread while the body runs; only in the main thread.

    end   asks the work to end, after the body
    stop  is asked to finish if the work raises a LadderError, which is raised here in the end
    own   is what the work looks at; an exception of the body, at Ctrl-C or SIGTERM too, makes it
          hand back
    """
    failed: list[LadderError] = []

    def run() -> None:
        try:
            work()
        except LadderError as error:
            failed.append(error)
            stop.ask(StopRequest.FINISH)

    thread = threading.Thread(target=run)
    try:
        # While the body has no handlers of its own, SIGTERM would end this process at once.
        with on_signals(_interrupt):
            with stop.on_signals():
                thread.start()
            yield
    except BaseException:
        own.ask(StopRequest.HAND_BACK)
        raise
    finally:
        with stop.on_signals():
            end()
            if thread.ident is not None:
                thread.join()
    for error in failed:
        raise error


def _interrupt() -> None:
    raise KeyboardInterrupt
