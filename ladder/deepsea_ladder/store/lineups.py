"""The line-ups of jobs.

Invariant: a job's seats are written with it and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from sqlalchemy import ColumnElement, Connection, bindparam, exists, select

from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.store import schema

_jobs, _seats = schema.jobs, schema.job_seats
_OF_JOB: Final = (
    select(_seats.c.version_id).where(_seats.c.job_id == bindparam("job")).order_by(_seats.c.seat)
)


def lineups_of(
    connection: Connection, *conditions: ColumnElement[bool]
) -> dict[int, tuple[int, ...]]:
    """The line-ups of the jobs that meet the conditions: version ids by seat, by the job's id."""
    rows = connection.execute(
        select(_seats.c.job_id, _seats.c.version_id)
        .join(_jobs, _jobs.c.id == _seats.c.job_id)
        .where(*conditions)
        .order_by(_seats.c.job_id, _seats.c.seat)
    )
    return {
        job_id: tuple(row.version_id for row in group)
        for job_id, group in groupby(rows, key=lambda row: row.job_id)
    }


def lineup_of(connection: Connection, job_id: int) -> tuple[int, ...]:
    """The line-up of one job."""
    found = tuple(connection.execute(_OF_JOB, {"job": job_id}).scalars())
    if not found:
        raise StoreDamaged(f"job {job_id} has no line-up")
    return found


def seats_one_of(version_ids: Sequence[int]) -> ColumnElement[bool]:
    """The condition on a job that one of these versions sits in its game."""
    seats = _seats.alias()
    return exists().where(
        seats.c.version_id.in_(version_ids),
        seats.c.season_id == _jobs.c.season_id,
        seats.c.job_id == _jobs.c.id,
    )
