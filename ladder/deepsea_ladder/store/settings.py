"""The settings of the ladder that an operator has changed.

Invariants: each is a number within its range, and every change of it is in the audit log; one that
this program does not know is left alone; for one that is damaged the default is in force.
"""

from __future__ import annotations

from sqlalchemy import Connection, Integer, String, delete, insert, select, type_coerce

from deepsea_ladder.accounts import Actor, AuditKind
from deepsea_ladder.errors import SeasonError
from deepsea_ladder.limits import (
    USUAL_LIMITS,
    RemoteLimits,
    check_setting,
    limits_in_force,
)
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.database import StorePart, now

_rows = schema.settings
_UNCHECKED = select(type_coerce(_rows.c.name, String()), type_coerce(_rows.c.value, Integer()))


class Settings(StorePart):
    def changed(self) -> dict[str, int]:
        """The settings that do not have their default."""
        with self._database.read() as connection:
            return _changed(connection)

    def limits(self, usual: RemoteLimits = USUAL_LIMITS) -> RemoteLimits:
        """The limits in force; `usual` has the defaults."""
        return limits_in_force(self.changed(), usual)

    def change(self, name: str, value: int | None, by: Actor) -> None:
        """Set a setting; None: its default again. `SeasonError` for what cannot be."""
        check_setting(name, value)
        with self._database.write() as connection:
            before = _changed(connection).get(name)
            if value == before:
                return
            connection.execute(delete(_rows).where(_rows.c.name == name))
            if value is not None:
                connection.execute(insert(_rows).values(name=name, value=value))
            new, old = ("the default" if one is None else f"{one}" for one in (value, before))
            words = f"{new}, was {old}"
            note(connection, now(connection), AuditKind.SETTING, name, words, by=by)


def limits_now(connection: Connection) -> RemoteLimits:
    """The limits in force in the running transaction."""
    return limits_in_force(_changed(connection))


def _changed(connection: Connection) -> dict[str, int]:
    return {name: value for name, value in connection.execute(_UNCHECKED) if _is_one(name, value)}


def _is_one(name: object, value: object) -> bool:
    """True if this can be a setting: for a damaged one the default is in force."""
    if type(name) is not str or type(value) is not int:
        return False
    try:
        check_setting(name, value)
    except SeasonError:
        return False
    return True
