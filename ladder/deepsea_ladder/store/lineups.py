"""The line-ups of jobs.

Invariant: a job's seats are written with it and never changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from sqlalchemy import ColumnElement, Connection, exists, select

from deepsea_ladder.store import schema

_jobs, _seats = schema.jobs, schema.job_seats


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
    return lineups_of(connection, _jobs.c.id == job_id)[job_id]


def seats_one_of(version_ids: Sequence[int]) -> ColumnElement[bool]:
    """The condition on a job that one of these versions sits in its game."""
    seats = _seats.alias()
    return exists().where(
        seats.c.version_id.in_(version_ids),
        seats.c.season_id == _jobs.c.season_id,
        seats.c.job_id == _jobs.c.id,
    )
