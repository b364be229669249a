"""The cost of a ladder's status, in statements, on a ladder of many bots and seasons."""

from __future__ import annotations

from sqlalchemy import insert, select

from deepsea_arena.api.local import ladder_of
from deepsea_ladder.store import Store, schema
from helpers import ladder
from helpers.counting import counted

BOTS, SEASONS = 200, 11
MOST_STATEMENTS = 30


def grown(store: Store) -> None:
    """Give a ladder of four bots and one open season many more of both."""
    with store.database.write() as connection:
        season = connection.execute(select(schema.seasons)).one()._asdict()
        bot, version = (
            connection.execute(select(table)).all()[0]
            for table in (schema.bots, schema.bot_versions)
        )
        bots = [
            {"name": f"more{n}", "name_key": f"more{n}", "id": n + 100} for n in range(BOTS - 4)
        ]
        for table, row in ((schema.bots, bot), (schema.bot_versions, version)):
            values = [
                {**row._asdict(), "id": new["id"], "bot_id": new["id"], **new} for new in bots
            ]
            columns = {column.name for column in table.columns}
            connection.execute(
                insert(table), [{k: v for k, v in one.items() if k in columns} for one in values]
            )
        settings = season.pop("settings")
        seasons = [
            {
                **season,
                "id": n,
                "name": f"s{n}",
                "settings": settings.replace('"s1"', f'"s{n}"'),
                "games": 0,
            }
            for n in range(2, SEASONS + 1)
        ]
        connection.execute(insert(schema.seasons), seasons)


def test_a_status_takes_few_statements_however_many_bots_and_seasons_there_are(
    played: Store,
) -> None:
    machine = ladder_of(played)
    machine.status()  # statements that only the first one takes
    grown(played)
    season = played.seasons.get("s1")
    played.jobs.add(season, ladder.rotations(ladder.ids(played)[:4], 4))
    played.jobs.fail(ladder.claim(played, season), "no luck", 0)
    with counted(played) as sent:
        status = machine.status()
    assert (status.bots, len(status.seasons)) == (BOTS, SEASONS)
    assert [(one.bot, one.voids) for one in status.seasons[0].strikes] == [("anna", 1), ("ben", 0)]
    assert len(sent.statements) <= MOST_STATEMENTS
    assert sent.transactions == 1
