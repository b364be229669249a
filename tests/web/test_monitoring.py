"""What an operator's programs ask: health, readiness and metrics, read as Prometheus reads them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event

from deepsea_ladder import backup
from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.store import Store
from deepsea_referee.clock import Alarm
from deepsea_web.http_api import READY_US, http_api, monitored
from deepsea_web.serve import with_api
from deepsea_web.site.app import Site
from helpers import ladder
from helpers.manual_clock import ManualClock
from helpers.members import a_service
from helpers.site import a_site, ask, get
from helpers.world import World

Samples = dict[tuple[str, tuple[str, ...]], float]


def whole(site: Site, *, has_runner: bool = False) -> Site:
    """The same site with the API, as `serve` puts them together."""
    gateway, access = site.gateway, site.access
    app = with_api(site.app, http_api(gateway, access), access)
    site.app = monitored(app, gateway, access, lambda: has_runner)
    return site


def scraped(site: Site, token: str) -> Samples:
    """The metrics by name and values of labels."""
    answer = get(site, "/metrics", headers={"Authorization": f"Bearer {token}"})
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_metrics_are_those_of_the_store_and_of_the_server(world: World, tmp_path: Path) -> None:
    store, site = world.service.store, whole(world.site)
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    store.jobs.fail(ladder.claim(store, season), "no luck", 0)
    ladder.claim(store, season, "runner")
    ladder.claim(store, season, "late", seconds=0)
    store.tasks.note_rest("another", "its order is settled", 60)
    backup.back_up(store, tmp_path / "copy.db")
    for url in ("/bots/anna", "/bots/nobody", "/games/s1-2", "/api/v1/bots/anna", "/x/anna"):
        get(site, url)
    found = scraped(site, world.tokens["admin"])
    assert {key: found[key] for key in EXPECTED} == EXPECTED
    assert 0 <= found["deepsea_backup_age_seconds", ()] < 3600
    assert found["deepsea_store_bytes", ()] >= (tmp_path / "ladder.db").stat().st_size
    assert found["deepsea_recent_decision_seconds", ("0.5",)] > 0
    assert found["process_resident_memory_bytes", ()] > 0


EXPECTED: Samples = {
    ("deepsea_games_total", ()): 4,
    ("deepsea_faults_total", ()): 1,
    ("deepsea_forfeits_total", ()): 1,
    ("deepsea_recent_faults", ("crash",)): 1,
    ("deepsea_recent_games", ()): 4,
    ("deepsea_lost_attempts_total", ("void",)): 1,
    ("deepsea_waiting", ("games",)): 2,
    ("deepsea_leased", ("games",)): 1,
    ("deepsea_expired", ("games",)): 1,
    ("deepsea_waiting", ("submissions",)): 1,
    ("deepsea_waiting", ("analyses",)): 0,
    ("deepsea_recent_submissions", ("queued",)): 1,
    ("deepsea_runners", ()): 2,
    ("deepsea_resting_runners", ()): 1,
    ("deepsea_quarantined_games", ()): 0,
    ("deepsea_requests_total", ("/bots/{name}", "200")): 1,
    ("deepsea_requests_total", ("/bots/{name}", "404")): 1,
    ("deepsea_requests_total", ("/games/{id}", "200")): 1,
    ("deepsea_requests_total", ("/api/v1/bots/{bot}", "200")): 1,
    ("deepsea_requests_total", ("other", "404")): 1,
    ("deepsea_refusals_total", ("pages_per_minute",)): 0,
    ("deepsea_streams", ("events",)): 0,
}


def test_no_label_is_a_name_of_a_person_a_bot_or_a_season(world: World) -> None:
    store, site = world.service.store, whole(world.site)
    names = {author.author for author in store.authors.all()} | {"s1", "runner"}
    names |= {bot.name for bot in store.bots.all()} | {"second"}
    season = store.seasons.get("s1")
    store.jobs.add(season, ladder.rotations(ladder.ids(store), 4))
    ladder.claim(store, season, "runner")
    for name in sorted(names):
        for path in ("/", "/bots/", "/games/s1-1/", "/api/v1/bots/", "/admin/"):
            get(site, f"{path}{name}")
    labels = {label for _, values in scraped(site, world.tokens["admin"]) for label in values}
    words = {word for label in labels for word in re.split(r"[/ {}]+", label)}
    assert not words & (names - {"admin"})  # which is in the paths of routes, too


def test_metrics_are_for_admins_alone_and_a_token_that_only_reads_is_enough(world: World) -> None:
    site = whole(world.site)
    reading = world.ladder("admin").create_token(label="prometheus", scopes=["read"]).secret
    expected = {reading: 200, world.tokens["admin"]: 200, world.tokens["anna-senior"]: 403}
    for token, status in {**expected, "": 401, "dsl_wrong": 401}.items():
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = get(site, "/metrics", headers=headers)
        assert (answer.status, "deepsea_games" in answer.text) == (status, status == 200)


# Health and readiness


def jobs_wait(store: Store) -> None:
    store.jobs.add(store.seasons.get("s1"), ladder.rotations(ladder.ids(store), 4))


def jobs_wait_in_a_pause(store: Store) -> None:
    jobs_wait(store)
    store.seasons.set_paused("s1", MACHINE, paused=True)


def a_runner_plays(store: Store, seconds: float = 60) -> None:
    jobs_wait(store)
    ladder.claim(store, store.seasons.get("s1"), seconds=seconds)


def a_runner_was_lost(store: Store) -> None:
    a_runner_plays(store, seconds=0)


def a_runner_rests(store: Store, seconds: float = 60) -> None:
    jobs_wait(store)
    store.tasks.note_rest("runner", "its order is settled", seconds)


def a_resting_runner_was_lost(store: Store) -> None:
    a_runner_rests(store, seconds=0)


def a_record_is_damaged(store: Store) -> None:
    ladder.write(store, "UPDATE games SET record = substr(record, 1, 9) WHERE seq = 8")


def the_file_is_gone(store: Store) -> None:
    Path(str(store.database)).unlink()


NO_STORE = (503, "the store cannot be written\n")


@pytest.mark.parametrize(
    ("change", "alone", "with_runner"),
    [
        (ladder.nothing, (200, "ready\n"), (200, "ready\n")),
        (jobs_wait, (503, "no runner\n"), (200, "ready\n")),
        (jobs_wait_in_a_pause, (200, "ready\n"), (200, "ready\n")),
        (a_runner_plays, (200, "ready\n"), (200, "ready\n")),
        (a_runner_was_lost, (503, "no runner\n"), (200, "ready\n")),
        (a_runner_rests, (200, "ready\n"), (200, "ready\n")),
        (a_resting_runner_was_lost, (503, "no runner\n"), (200, "ready\n")),
        (a_record_is_damaged, (200, "ready\n"), (200, "ready\n")),
        (the_file_is_gone, NO_STORE, NO_STORE),
    ],
)
def test_a_ladder_is_ready_if_it_can_be_written_and_what_waits_is_done(
    played: Store,
    change: Callable[[Store], None],
    alone: tuple[int, str],
    with_runner: tuple[int, str],
) -> None:
    change(played)
    for has_runner, expected in ((False, alone), (True, with_runner)):
        site = whole(a_site(a_service(played)), has_runner=has_runner)
        answer = get(site, "/readyz")
        assert (answer.status, answer.text) == expected
        assert get(site, "/healthz").status == 200


def test_a_ladder_that_may_only_be_read_or_has_a_full_disk_is_not_ready(
    played: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(played.database, "free_bytes", lambda: 1000)
    for refusal in (ladder.no_writes(played), nullcontext()):
        with refusal:
            answer = get(whole(a_site(a_service(played))), "/readyz")
            assert (answer.status, answer.text) == NO_STORE


async def test_readiness_is_asked_once_in_a_while_and_a_store_that_does_not_answer_is_not_ready(
    played: Store,
) -> None:
    asked = asyncio.Event()

    class Watched(ManualClock):
        def at(self, when_us: int, ring: Callable[[], object]) -> Alarm:
            if when_us > 2 * READY_US:  # the last question, which sets its time limit
                asked.set()
            return super().at(when_us, ring)

    clock = Watched()
    site = whole(a_site(a_service(played), clock=clock))

    answers = [await ask(site, "/readyz")]
    jobs_wait(played)
    answers.append(await ask(site, "/readyz"))
    clock.jump(READY_US)
    answers.append(await ask(site, "/readyz"))
    clock.jump(READY_US)
    with played.database.write():  # others wait for half a minute
        late = asyncio.create_task(ask(site, "/readyz"))
        await asked.wait()
        clock.jump(READY_US)
        answers.append(await late)
    found = [(answer.status, answer.text) for answer in answers]
    busy = (503, "the server is busy\n")
    assert found == [(200, "ready\n"), (200, "ready\n"), (503, "no runner\n"), busy]
    site.gateway.close()


# What it costs


def test_counts_read_no_table_that_grows_with_games_as_a_whole(played: Store) -> None:
    statements: list[tuple[str, Any]] = []

    def seen(*given: Any) -> None:
        _, _, statement, values, *_ = given
        if statement.startswith("SELECT"):
            statements.append((statement, values))

    event.listen(played.database.engine, "before_cursor_execute", seen)
    played.counts.read()
    played.queue.counts(played.seasons.get("s1"))
    event.remove(played.database.engine, "before_cursor_execute", seen)
    assert len(statements) > 10
    tables = "games|jobs|attempts|[a-z]+_(seats|games)|submissions|analyses|comparisons|audit"
    with played.database.read() as connection:
        for statement, values in statements:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            plan = [row.detail for row in rows]
            newest = "LIMIT" in statement and not any("TEMP B-TREE" in line for line in plan)
            assert newest or not any(re.search(rf"SCAN ({tables})\b", line) for line in plan), (
                statement,
                plan,
            )
