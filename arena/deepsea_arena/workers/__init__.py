"""Workers that play the ladder's games: processes on this machine, or a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.play.dask import DaskWorkers


def dask_workers() -> type[DaskWorkers]:
    """The pool on a Dask cluster; raises UserError if Dask is not installed."""
    try:
        from deepsea_arena.play.dask import DaskWorkers
    except ModuleNotFoundError as error:
        if error.name != "distributed":
            raise
        raise UserError(
            "--cluster needs the package distributed: pip install distributed"
        ) from None
    return DaskWorkers
