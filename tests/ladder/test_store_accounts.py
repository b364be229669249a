"""Codes, tokens, sessions and authors in the store."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from threading import Barrier

import pytest
from sqlalchemy import select, update

from deepsea_bundle.errors import BundleError
from deepsea_ladder import backup
from deepsea_ladder.accounts import (
    MACHINE,
    NOBODY,
    Actor,
    AuditKind,
    AuthorState,
    Caller,
    NewToken,
    Role,
    Scope,
    SecretKind,
)
from deepsea_ladder.errors import AccountError, CodeRefused, NotOnLadder
from deepsea_ladder.store import Store, schema
from deepsea_ladder.store.accounts import KEPT_MS
from deepsea_rules.randomness import seed_from_text
from helpers import ladder

EVERY = (Scope.READ, Scope.SUBMIT, Scope.ADMIN)


def digest(name: str) -> str:
    """Something like the digest of a secret of that name."""
    return seed_from_text(name).hex()


def token(name: str, scopes: tuple[Scope, ...] = (Scope.READ, Scope.SUBMIT)) -> NewToken:
    return NewToken(digest(name), f"dsl_{digest(name)[:4]}", "laptop", 365, scopes)


def code(store: Store, name: str = "code", author: str = "") -> int:
    (made,) = store.accounts.make_codes([(digest(name), author)], 14, MACHINE)
    return made.id


def join(store: Store, author: str = "Ada", name: str = "") -> Caller:
    """An author with a token, whose digest is of that name."""
    secret = name or f"{author}'s"
    code(store, f"code of {secret}")
    return store.accounts.redeem(digest(f"code of {secret}"), author, token(secret), "192.0.2.0/24")


def admin(store: Store, author: str = "", name: str = "admin") -> Caller:
    return store.accounts.admin_token(author, token(name, EVERY), MACHINE)


def by(proven: Caller) -> Actor:
    return Actor(proven.author_id)


def set_all(store: Store, kind: SecretKind, **values: object) -> None:
    table = schema.secrets
    ladder.write(store, update(table).where(table.c.kind == kind).values(values))


def test_a_code_becomes_a_token_of_a_new_author(store: Store) -> None:
    code(store)
    proven = store.accounts.redeem(digest("code"), "Ada", token("Ada's"), "192.0.2.0/24")
    assert (proven.author, proven.role) == ("Ada", Role.AUTHOR)
    assert proven.scopes == {Scope.READ, Scope.SUBMIT}
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) == proven
    assert store.accounts.codes() == []
    (author,) = store.authors.all()
    assert (author.author, author.state, author.tokens) == ("Ada", AuthorState.ACTIVE, 1)


def test_a_code_is_redeemed_once(store: Store) -> None:
    code(store)
    store.accounts.redeem(digest("code"), "Ada", token("one"), "")
    with pytest.raises(CodeRefused, match="mistyped, used, or has ended"):
        store.accounts.redeem(digest("code"), "Ben", token("two"), "")
    assert [author.author for author in store.authors.all()] == ["Ada"]


@pytest.mark.databases
def test_a_stolen_code_used_at_the_same_moment_gives_one_token(target: str, store: Store) -> None:
    code(store)
    thieves = 4
    together = Barrier(thieves)

    def redeem(number: int) -> bool:
        with Store.open(target) as own:
            together.wait()
            try:
                own.accounts.redeem(digest("code"), f"thief{number}", token(f"t{number}"), "")
            except CodeRefused:
                return False
            return True

    with ThreadPoolExecutor(thieves) as pool:
        assert sum(pool.map(redeem, range(thieves))) == 1
    assert len(store.authors.all()) == 1


@pytest.mark.parametrize(
    "name", ["Ada", "ada", "admin", "machine", "anonymous-7", "a/b", "", "x v2-v2"]
)
def test_a_name_that_is_taken_or_not_allowed_costs_no_code(store: Store, name: str) -> None:
    join(store, "Ada")
    code(store)
    with pytest.raises((AccountError, BundleError)):
        store.accounts.redeem(digest("code"), name, token("x"), "")
    assert store.accounts.redeem(digest("code"), "Ben", token("x"), "").author == "Ben"


def test_a_code_for_an_author_is_for_nobody_else(store: Store) -> None:
    ladder.submit(store, "greedy", author="Ada")
    code(store, author="Ada")
    assert [one.author for one in store.accounts.codes()] == ["Ada"]
    with pytest.raises(AccountError, match="this code is for the author 'Ada'"):
        store.accounts.redeem(digest("code"), "Ben", token("x"), "")
    assert store.accounts.redeem(digest("code"), "", token("x"), "").author == "Ada"


def test_a_name_of_a_code_cannot_be_chosen_by_others(store: Store) -> None:
    code(store, "hers", "Ada")
    code(store, "free")
    with pytest.raises(AccountError, match="is taken"):
        store.accounts.redeem(digest("free"), "ADA", token("x"), "")


@pytest.mark.databases
def test_codes_end(store: Store) -> None:
    revoked, _ = code(store, "one"), code(store, "two")
    store.accounts.revoke(SecretKind.CODE, revoked, MACHINE)
    with pytest.raises(NotOnLadder):
        store.accounts.revoke(SecretKind.CODE, revoked, MACHINE)
    set_all(store, SecretKind.CODE, expires_at=1)
    for name in ("one", "two", "three"):
        with pytest.raises(CodeRefused):
            store.accounts.redeem(digest(name), "Ada", token("x"), "")
    assert store.accounts.codes() == []


def test_tokens_expire(store: Store) -> None:
    join(store)
    set_all(store, SecretKind.TOKEN, expires_at=1)
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is None


@pytest.mark.databases
def test_the_day_of_use_is_kept(store: Store) -> None:
    proven = join(store)
    assert store.accounts.tokens(proven.author_id)[0].last_used == ""
    store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's"))
    used = store.accounts.tokens(proven.author_id)[0].last_used
    assert date.fromisoformat(used).isoformat() == used


def test_a_revoked_token_and_its_sessions_are_dead(store: Store) -> None:
    proven = join(store)
    session = store.accounts.open_session(digest("Ada's"), digest("page"), 14, 9, "")
    assert session is not None
    assert store.accounts.holder_by_digest(SecretKind.SESSION, digest("page")) == session
    store.accounts.revoke(SecretKind.TOKEN, proven.secret_id, by(proven), proven.author_id)
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is None
    assert store.accounts.holder_by_id(proven.secret_id) is None
    assert store.accounts.holder_by_digest(SecretKind.SESSION, digest("page")) is None
    assert store.accounts.holder_by_id(session.secret_id) is None
    assert store.accounts.open_session(digest("Ada's"), digest("other"), 14, 9, "") is None


@pytest.mark.parametrize("by_session", [False, True])
def test_a_write_begins_with_a_check_which_may_refuse_it(store: Store, by_session: bool) -> None:
    proven = join(store)
    session = store.accounts.open_session(digest("Ada's"), digest("page"), 14, 9, "")
    assert session is not None
    found: list[Caller] = []

    def check(holder: Caller | None) -> None:
        if holder is None:
            raise AccountError("it has ended")
        found.append(holder)

    used = session if by_session else proven
    with store.accounts.checked_writes(check, used.secret_id):
        code(store)
        store.accounts.revoke(SecretKind.TOKEN, proven.secret_id, by(proven), proven.author_id)
        with pytest.raises(AccountError, match="it has ended"):
            code(store, "another")
    assert found == [used] * 2
    assert len(store.accounts.codes()) == 1
    code(store, "another")  # nothing is checked any more


@pytest.mark.databases
def test_no_secret_is_taken_for_another_kind(store: Store) -> None:
    proven = join(store)
    number = code(store, "open", "Ada")
    session = store.accounts.open_session(digest("Ada's"), digest("page"), 14, 9, "")
    assert session is not None
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("page")) is None
    assert store.accounts.holder_by_digest(SecretKind.SESSION, digest("Ada's")) is None
    assert store.accounts.open_session(digest("page"), digest("more"), 14, 9, "") is None
    for kind in SecretKind:
        assert store.accounts.holder_by_digest(kind, digest("open")) is None
    assert store.accounts.holder_by_id(number) is None
    for name in ("page", "Ada's"):
        with pytest.raises(CodeRefused):
            store.accounts.redeem(digest(name), "Ada", token("x"), "")
    for kind, others in (
        (SecretKind.CODE, (proven.secret_id, session.secret_id)),
        (SecretKind.TOKEN, (number, session.secret_id)),
        (SecretKind.SESSION, (number, proven.secret_id)),
    ):
        for other in others:
            with pytest.raises(NotOnLadder, match=f"there is no such {kind}"):
                store.accounts.revoke(kind, other, MACHINE)
    assert store.accounts.holder_by_id(session.secret_id) == session
    assert store.accounts.holder_by_id(proven.secret_id) == proven


def test_a_token_of_somebody_else_is_not_there(store: Store) -> None:
    ada, ben = join(store, "Ada"), join(store, "Ben")
    with pytest.raises(NotOnLadder):
        store.accounts.revoke(SecretKind.TOKEN, ada.secret_id, by(ben), ben.author_id)
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is not None


@pytest.mark.databases
def test_sessions_end_with_their_day_and_when_there_are_too_many(store: Store) -> None:
    proven = join(store)
    for number in range(4):
        store.accounts.open_session(digest("Ada's"), digest(f"page{number}"), 14, 3, "192.0.2.0/24")
    alive = [
        store.accounts.holder_by_digest(SecretKind.SESSION, digest(f"page{number}")) is not None
        for number in range(4)
    ]
    assert alive == [False, True, True, True]
    first, *_ = store.accounts.sessions(proven.author_id)
    assert first.address == "192.0.2.0/24"
    store.accounts.revoke(SecretKind.SESSION, first.id, by(proven), proven.author_id)
    assert store.accounts.holder_by_digest(SecretKind.SESSION, digest("page1")) is None
    set_all(store, SecretKind.SESSION, expires_at=1)
    assert store.accounts.sessions(proven.author_id) == []


def test_a_session_does_not_outlive_its_token(store: Store) -> None:
    proven = join(store)
    set_all(store, SecretKind.TOKEN, expires_at=proven.expires_at - 360 * 86_400_000)
    session = store.accounts.open_session(digest("Ada's"), digest("page"), 14, 3, "")
    assert session is not None
    assert session.expires_at == proven.expires_at - 360 * 86_400_000


def test_a_blocked_author_has_nothing_that_is_valid_until_a_new_code(store: Store) -> None:
    admin(store)
    proven = join(store)
    store.accounts.open_session(digest("Ada's"), digest("page"), 14, 3, "")
    code(store, "second", "Ada")
    assert store.authors.set_blocked("ada", MACHINE, blocked=True).state is AuthorState.BLOCKED
    for _ in range(2):
        assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is None
        assert store.accounts.holder_by_digest(SecretKind.SESSION, digest("page")) is None
        with pytest.raises(CodeRefused):
            store.accounts.redeem(digest("second"), "", token("x"), "")
        store.authors.set_blocked("Ada", MACHINE, blocked=False)
    store.authors.set_blocked("Ada", MACHINE, blocked=True)
    with pytest.raises(AccountError, match="is blocked"):
        store.accounts.reset("Ada", digest("third"), 14, MACHINE)
    with pytest.raises(AccountError, match="is blocked"):
        ladder.submit(store, "greedy", author="Ada")
    with pytest.raises(AccountError):
        store.accounts.create_token(proven.author_id, token("y"), 9, NOBODY)


def test_a_reset_ends_old_tokens_and_gives_a_code(store: Store) -> None:
    join(store)
    store.accounts.reset("Ada", digest("new"), 14, MACHINE)
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is None
    assert store.accounts.redeem(digest("new"), "", token("again"), "").author == "Ada"


@pytest.mark.databases
def test_the_last_admin_stays(store: Store) -> None:
    one = admin(store)
    join(store, "Ada")
    for taken in (
        lambda: store.authors.set_blocked("admin", MACHINE, blocked=True),
        lambda: store.authors.anonymise("admin", MACHINE),
        lambda: store.accounts.revoke(SecretKind.TOKEN, one.secret_id, by(one), one.author_id),
        lambda: store.accounts.reset("admin", digest("x"), 14, by(one)),
    ):
        with pytest.raises(AccountError, match="last"):
            taken()
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("admin")) is not None
    two = admin(store, "Ada", "Ada's new one")
    assert two.role is Role.ADMIN
    store.accounts.revoke(SecretKind.TOKEN, one.secret_id, by(one), one.author_id)
    store.authors.set_blocked("admin", MACHINE, blocked=True)
    with pytest.raises(AccountError, match="last"):
        store.authors.set_blocked("Ada", by(two), blocked=True)
    # The machine makes a new one whenever it likes.
    store.accounts.revoke(SecretKind.TOKEN, two.secret_id, MACHINE, two.author_id)
    assert admin(store, "Ada", "again").role is Role.ADMIN


@pytest.mark.databases
def test_a_token_without_the_scope_is_no_admins_last_one(store: Store) -> None:
    one = admin(store)
    plain = store.accounts.create_token(one.author_id, token("plain"), 9, by(one))
    with pytest.raises(AccountError, match="last"):
        store.accounts.revoke(SecretKind.TOKEN, one.secret_id, by(one), one.author_id)
    store.accounts.revoke(SecretKind.TOKEN, plain.id, by(one))


def test_nobody_becomes_admin_by_the_name(store: Store) -> None:
    ladder.submit(store, "greedy", author="Admin")
    with pytest.raises(AccountError, match="'Admin' is no admin; say who shall be"):
        admin(store)
    assert admin(store, "Admin").author == "Admin"


def test_an_author_has_so_many_tokens(store: Store) -> None:
    proven = join(store)
    store.accounts.create_token(proven.author_id, token("two"), 2, by(proven))
    with pytest.raises(AccountError, match="at most 2 tokens; revoke one first"):
        store.accounts.create_token(proven.author_id, token("three"), 2, by(proven))


def test_an_author_gets_another_name_everywhere(store: Store, another: Callable[[], Store]) -> None:
    proven = join(store)
    ladder.submit(store, "greedy", author="Ada")
    join(store, "Ben")
    for name, error in (("ben", AccountError), ("a/b", BundleError), ("machine", BundleError)):
        with pytest.raises(error):
            store.authors.rename("Ada", name, MACHINE)
    assert store.authors.rename("Ada", "ADA", MACHINE).author == "ADA"
    store.authors.rename("Ada", "Countess", MACHINE)
    assert another().bots.get("greedy").author == "Countess"
    found = store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's"))
    assert found is not None
    assert found.author == "Countess"
    entries = store.audit.latest(author_id=proven.author_id)
    assert {entry.actor for entry in entries} <= {"Countess", "machine", ""}
    assert (entries[0].subject, entries[0].note) == ("Countess", "was called ADA")
    assert entries[0].actor == "machine"


@pytest.mark.databases
def test_an_anonymised_author_leaves_no_name(store: Store) -> None:
    proven = join(store, "Ada")
    store.accounts.open_session(digest("Ada's"), digest("page"), 14, 3, "192.0.2.0/24")
    ladder.submit(store, "greedy", author="Ada")
    store.authors.rename("Ada", "Lovelace", MACHINE)
    gone = store.authors.anonymise("Lovelace", MACHINE)
    assert (gone.author, gone.state) == (f"anonymous-{proven.author_id}", AuthorState.ANONYMISED)
    assert store.bots.get("greedy").author == gone.author
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is None
    with pytest.raises(NotOnLadder):
        store.authors.id_of("Ada")
    for change in (
        lambda: store.authors.set_blocked(gone.author, MACHINE, blocked=False),
        lambda: store.authors.rename(gone.author, "Ada", MACHINE),
        lambda: store.accounts.reset(gone.author, digest("x"), 14, MACHINE),
    ):
        with pytest.raises(AccountError):
            change()
    if store.database.path:
        with store.database.read() as connection:
            raw = "".join(
                str(connection.exec_driver_sql(f"SELECT * FROM {table}").all())
                for table in schema.metadata.tables
            )
        for word in ("Ada", "Lovelace", "laptop", "192.0.2"):
            assert word not in raw
    assert join(store, "Ada", "somebody else's").author_id != proven.author_id


@pytest.mark.databases
def test_the_audit_log_says_who_did_what_and_no_secret(store: Store) -> None:
    one = admin(store)
    proven = join(store)
    store.accounts.revoke(SecretKind.TOKEN, proven.secret_id, by(one), proven.author_id)
    entries = store.audit.latest()
    told = [(entry.kind, entry.subject, entry.note, entry.actor) for entry in entries]
    start = token("Ada's").start
    assert told[0] == (AuditKind.TOKEN, "Ada", f"{start}... revoked", "admin")
    assert (AuditKind.CODE, "anybody", "code 2 made", "machine") in told
    assert (AuditKind.CODE, "Ada", "code 2 redeemed", "Ada") in told
    assert {entry.address for entry in entries} == {"", "192.0.2.0/24"}
    assert digest("Ada's") not in str(entries)
    of_ada = store.audit.latest(author_id=proven.author_id)
    assert {entry.actor for entry in of_ada} == {"Ada", "admin"}


@pytest.mark.databases
def test_what_ended_long_ago_is_deleted(store: Store) -> None:
    proven = join(store)
    store.accounts.open_session(digest("Ada's"), digest("page"), 14, 3, "")
    for kind in SecretKind:
        set_all(store, kind, ended_at=1, expires_at=KEPT_MS)
    code(store, "new")
    with store.database.read() as connection:
        kinds = connection.execute(select(schema.secrets.c.kind)).scalars().all()
    assert kinds == [SecretKind.CODE]
    assert store.authors.id_of("Ada") == proven.author_id


def test_logins_change_no_page_and_new_names_do(store: Store) -> None:
    join(store)
    before = store.changes.of_game("s1-1")
    store.accounts.open_session(digest("Ada's"), digest("page"), 14, 3, "")
    assert store.changes.of_game("s1-1") == before
    store.authors.rename("Ada", "Ben", MACHINE)
    assert store.changes.of_game("s1-1") > before


def test_a_restored_ladder_lets_nobody_in(store: Store, tmp_path: Path) -> None:
    one = admin(store)
    join(store)
    store.accounts.open_session(digest("Ada's"), digest("page"), 14, 3, "")
    code(store, "open")
    backup.back_up(store, tmp_path / "backup.db")
    assert store.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is not None
    backup.restore(tmp_path / "backup.db", str(tmp_path / "restored.db"))
    for path in ("backup.db", "restored.db"):
        with Store.open(tmp_path / path) as other:
            assert other.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is None
            assert other.accounts.holder_by_digest(SecretKind.TOKEN, digest("admin")) is None
            assert other.accounts.holder_by_digest(SecretKind.SESSION, digest("page")) is None
            with pytest.raises(CodeRefused):
                other.accounts.redeem(digest("open"), "Eve", token("x"), "")
            (author,) = (one for one in other.authors.all() if one.author == "admin")
            assert author.role == Role.ADMIN.word
            assert admin(other, name="new").author_id == one.author_id


def test_a_copied_file_is_cleared_when_it_is_restored(store: Store, tmp_path: Path) -> None:
    if store.database.path is None:
        pytest.skip("a file is copied")
    join(store)
    target = tmp_path / "restored.db"
    backup.restore(store.database.path, str(target))
    with Store.open(target) as restored:
        assert restored.accounts.holder_by_digest(SecretKind.TOKEN, digest("Ada's")) is None
        assert restored.audit.latest()[0].kind is AuditKind.RESTORED


@pytest.mark.databases
def test_a_name_that_is_spelled_otherwise_is_not_silently_the_same_author(store: Store) -> None:
    wanted = [(seed_from_text(name).hex(), name) for name in ("Anna Müller", "ben", "Ben")]
    with pytest.raises(AccountError, match="Ben and ben, who is there, would be one author"):
        store.accounts.make_codes(wanted, 14, MACHINE)
    assert store.accounts.codes() == []
    made = store.accounts.make_codes(wanted[:2], 14, MACHINE)
    assert [one.author for one in made] == ["Anna Müller", "ben"]
    assert store.authors.id_of("ANNA MU\u0308LLER") == store.authors.id_of("Anna Müller")
