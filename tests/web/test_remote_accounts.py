"""Attacks on accounts from afar."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from deepsea_arena.api.callers import MACHINE
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import LadderService
from deepsea_ladder import backup
from deepsea_ladder.store import Store
from deepsea_sdk.entropy import fresh_seed
from helpers.manual_clock import ManualClock
from helpers.remote import OK, Answer, Remote, served


@contextlib.contextmanager
def remote(store: Store, clock: ManualClock | None = None) -> Iterator[Remote]:
    """A ladder that listens."""
    seconds = (lambda: clock.now_us() / 1e6) if clock else (lambda: 0.0)
    service = LadderService(store, store, entropy=fresh_seed, clock=seconds)
    with served(service, clock=clock) as server:
        yield Remote(server)


def a_code(there: Remote) -> str:
    """A code for a new author."""
    service = there.server.gateway.service
    return str(LocalLadder(service, MACHINE).create_codes(count=1).codes[0].code)


def test_a_stolen_code_used_at_the_same_moment_gives_one_token(played: Store) -> None:
    thieves = 6
    together = Barrier(thieves)
    with remote(played) as there:
        code = a_code(there)

        def redeem(number: int) -> Answer:
            together.wait()
            return there.call("redeem", code=code, author=f"thief{number}")

        with ThreadPoolExecutor(thieves) as pool:
            answers = list(pool.map(redeem, range(thieves)))
        assert Counter(answer.code for answer in answers)[OK] == 1
        (winner,) = (answer.document for answer in answers if answer.code == OK)
        assert there.call("who_am_i", winner["token"]).document["account"] == winner["account"]
    names = [author.name for author in played.authors.all() if author.name.startswith("thief")]
    assert names == [winner["account"]["author"]]


def test_guessing_codes_takes_longer_and_longer(played: Store) -> None:
    clock = ManualClock()
    with remote(played, clock) as there:
        code = a_code(there)
        guess: dict[str, Any] = {"code": "AAAA-AAAA-AAAA-AAAA", "author": "eve"}
        for _ in range(5):
            assert there.call("redeem", **guess).code == "UNAUTHENTICATED"
        for wait in (1, 2, 4, 8, 16, 32):
            answer = there.call("redeem", **guess)
            assert (answer.code, answer.retry_after) == ("RESOURCE_EXHAUSTED", wait)
            there.server.jump(wait * 1_000_000)
            assert there.call("redeem", **guess).code == "UNAUTHENTICATED"
        assert there.call("redeem", **guess).code == "RESOURCE_EXHAUSTED"
        assert there.call("redeem", code=code, author="anna-2").code == OK


@pytest.mark.parametrize(
    "said",
    [("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")],
)
def test_a_page_of_another_site_spends_nobodys_tries(played: Store, said: tuple[str, str]) -> None:
    """A browser sends a form of plain text to any address, without asking it first."""
    guess: dict[str, Any] = {"code": "AAAA-AAAA-AAAA-AAAA", "author": "eve"}
    with remote(played, ManualClock()) as there:
        code = a_code(there)
        for _ in range(6):
            foreign = there.call("redeem", headers=[said, ("Content-Type", "text/plain")], **guess)
            assert foreign.code == "PERMISSION_DENIED"
        assert there.call("standings", headers=[said]).code == OK
        for _ in range(5):
            assert there.call("redeem", **guess).code == "UNAUTHENTICATED"
    with remote(played) as there:
        own = ("Origin", f"http://127.0.0.1:{there.port}"), ("Sec-Fetch-Site", "same-origin")
        assert there.call("redeem", headers=own, code=code, author="eve").code == OK


def test_who_redeems_a_code_chooses_a_name_and_nothing_else(played: Store) -> None:
    more: dict[str, Any] = {"role": "admin", "scopes": ["admin"], "account": {"role": "admin"}}
    with remote(played) as there:
        code = a_code(there)
        for name, value in more.items():
            answer = there.call("redeem", code=code, author="eve", **{name: value})
            assert answer.code == "INVALID_ARGUMENT"
        account = there.call("redeem", code=code, author="eve").document["account"]
    assert (account["author"], account["role"]) == ("eve", "author")
    assert account["scopes"] == ["read", "submit"]


def test_an_author_makes_no_admins_token(played: Store) -> None:
    with remote(played) as there:
        token = there.token("anna")
        for scopes in (["admin"], ["read", "submit", "admin"]):
            assert there.call("create_token", token, scopes=scopes).code == "PERMISSION_DENIED"
        read = there.call("create_token", token, scopes=["read"]).document
        assert there.call("create_token", read["secret"]).code == "PERMISSION_DENIED"
        assert there.call("who_am_i", read["secret"]).document["account"]["scopes"] == ["read"]


def test_a_restored_backup_lets_nobody_in(played: Store, tmp_path: Path) -> None:
    with remote(played) as there:
        tokens = [there.token("anna"), there.token("boss", admin=True)]
        code = a_code(there)
        backup.back_up(played, tmp_path / "backup.db")
        assert {there.call("who_am_i", token).code for token in tokens} == {OK}
    backup.restore(tmp_path / "backup.db", str(tmp_path / "restored.db"))
    with Store.open(tmp_path / "restored.db") as restored, remote(restored) as there:
        for token in tokens:
            assert there.call("who_am_i", token).code == "UNAUTHENTICATED"
        assert there.call("redeem", code=code, author="eve").code == "UNAUTHENTICATED"
        again = there.token("anna")
        assert there.call("who_am_i", again).document["account"]["author"] == "anna"


def test_the_last_admin_is_kept_from_afar(played: Store) -> None:
    with remote(played) as there:
        boss = there.token("boss", admin=True)
        (known,) = there.call("tokens", boss).document["tokens"]
        takes: list[tuple[str, dict[str, Any]]] = [
            ("block_author", {"author": "boss", "blocked": True}),
            ("anonymise_author", {"author": "boss"}),
            ("reset_author", {"author": "boss"}),
            ("revoke_token", {"id": int(known["id"])}),
        ]
        for name, fields in takes:
            answer = there.call(name, boss, **fields)
            assert (answer.code, "last" in answer.message) == ("FAILED_PRECONDITION", True)
        assert there.call("authors", boss).code == OK
