"""`ladder login`, `logout`, `whoami`: where tokens are kept, which certificates are accepted."""

from __future__ import annotations

import io
import json
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deepsea_arena.api.remote import fingerprint, same_fingerprint, tls_settings
from deepsea_cli.ladder.options import (
    Logins,
    StoredLogin,
    logins_file,
    read_logins,
    read_url,
    write_logins,
)
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from helpers import certificates
from helpers.answering import Answering, Asked, Reply, Scripted, Tunnel, answer, refusal
from helpers.commands import Done, Run, Tty, imported_by, one_line

TOKEN = "dsl_" + "a" * 64
OTHER = "dsl_" + "b" * 64
CODE = ("--code", "-", "--author", "ben")
ACCOUNT = {
    "author": "anna",
    "role": "author",
    "scopes": ["read", "submit"],
    "token_id": "7",
    "expires_at": "2027-11-22T00:17:00.000Z",
}


class Ladder(Scripted):
    """Knows TOKEN, and one code."""

    def __init__(self) -> None:
        super().__init__()
        self.token: str | None = TOKEN
        self.codes = {"ABCD-EFGH-2345-WXYZ"}
        self.documents = {
            "/redeem": self.redeem,
            "/account": self.whoami,
            "/account/tokens/7": self.revoke,
        }

    def redeem(self, asked: Asked) -> Reply:
        given = json.loads(asked.body)
        if given["code"] not in self.codes:
            return refusal("NOT_FOUND", "there is no such code", 404)
        self.codes.clear()
        self.token = TOKEN
        account = {**ACCOUNT, "author": given["author"]}
        return answer({"token": TOKEN, "account": account})

    def whoami(self, asked: Asked) -> Reply:
        if asked.token is None or asked.token != self.token:
            return refusal("UNAUTHENTICATED", "the token is not valid", 401)
        return answer({"account": ACCOUNT})

    def revoke(self, asked: Asked) -> Reply:
        assert asked.verb == "DELETE"
        if asked.token != self.token:
            return refusal("UNAUTHENTICATED", "the token is not valid", 401)
        self.token = None
        return answer({})


pytestmark = pytest.mark.usefixtures("home")
LogIn = Callable[..., Done]


@pytest.fixture
def file() -> Path:
    return logins_file()


@pytest.fixture
def there() -> Ladder:
    return Ladder()


@pytest.fixture
def login(run: Run, monkeypatch: pytest.MonkeyPatch) -> LogIn:
    """Run `ladder login` with this on stdin."""

    def call(url: str, *words: object, typed: str = TOKEN) -> Done:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        return run("ladder", "login", url, *words)

    return call


# ----------------------------------------------------------------------------------- the file


def test_the_file_is_for_the_user_alone(file: Path) -> None:
    assert read_logins() == Logins()
    login = StoredLogin(token=TOKEN, author="anna")
    logins = Logins().with_login("https://a.example", login)
    write_logins(logins)
    assert read_logins() == logins
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert TOKEN not in repr(logins)
    write_logins(logins.with_login("https://b.example", login))
    assert read_logins().default == "https://b.example"
    assert read_logins().without("https://b.example").default == "https://a.example"
    assert read_logins().without("https://b.example").without("https://a.example") == Logins()
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_file_that_others_can_read_is_refused(run: Run, file: Path, mode: int) -> None:
    write_logins(Logins().with_login("https://a.example", StoredLogin(token=TOKEN, author="anna")))
    file.chmod(mode)
    assert f"run `chmod 600 {file}`" in run("ladder", "whoami").refusal


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"format": "deepsea-ladders/9", "default": null, "ladders": {}}',
        b'{"format": "deepsea-ladders/1", "default": "x", "ladders": {}}',
        b'{"format": "deepsea-ladders/1", "default": null, "ladders": {"x": 7}}',
        b'{"format": "deepsea-ladders/1", "default": null, "ladders": {"x": {"token": "a b"}}}',
    ],
)
def test_a_damaged_file_costs_a_line(run: Run, file: Path, content: bytes) -> None:
    write_logins(Logins())
    file.write_bytes(content)
    assert "is damaged: remove it, and log in again" in run("ladder", "whoami").refusal


def test_where_settings_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/settings")
    assert logins_file() == Path("/settings/deepsea-referee/ladders.json")
    for unset in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", unset)
        assert logins_file() == Path("/home/somebody/.config/deepsea-referee/ladders.json")


# ------------------------------------------------------------------------------ in and out again


def test_a_code_becomes_a_token_that_is_kept(run: Run, server: Answering, login: LogIn) -> None:
    done = login(f"{server.url}/", *CODE, "--label", "laptop", typed="ABCD-EFGH-2345-WXYZ\n")
    assert (done.status, done.err) == (0, "")
    assert f"logged in at {server.url} as ben (author), who may read, submit" in done.out
    assert TOKEN not in done.out
    assert json.loads(server.asked[-1].body) == {
        "code": "ABCD-EFGH-2345-WXYZ",
        "author": "ben",
        "label": "laptop",
    }
    assert read_logins().ladders[server.url].token == TOKEN
    who = run("ladder", "whoami")
    assert who.out.startswith("anna (author), who may read, submit, until 2027-11-22 00:17 UTC")
    document = json.loads(run("ladder", "whoami", "--json").out)
    assert document["account"]["expires_at"] == ACCOUNT["expires_at"]
    assert all(TOKEN not in asked.path for asked in server.asked)


def test_a_token_is_tried_before_it_is_kept(server: Answering, login: LogIn) -> None:
    for wrong, said in ((OTHER, "the token is not valid"), ("a b", "is no token of a ladder")):
        done = login(server.url, typed=f"{wrong}\n")
        assert said in done.refusal
        assert wrong not in done.err
        assert read_logins() == Logins()
    assert login(server.url, typed=f"  {TOKEN}  \n").status == 0
    assert read_logins().ladders[server.url].author == "anna"


def test_a_login_without_a_secret_or_with_one_in_an_argument_is_refused(
    server: Answering, login: LogIn
) -> None:
    for words, given, said in (
        (["--code", "ABCD-EFGH-2345-WXYZ"], "", "seen by others"),
        (["--code", "-"], "\n", "there is no invite code"),
        ([], "", "there is no token"),
        (["--author", "ben"], TOKEN, "belong to --code"),
        (["--code", "-"], "WRONG-CODE\n", "there is no such code"),
        (["--fingerprint", "ab"], TOKEN, "has no certificate"),
    ):
        done = login(server.url, *words, typed=given)
        assert said in done.refusal
        assert "EFGH" not in done.err
    assert read_logins() == Logins()


def test_no_code_is_spent_if_its_token_could_not_be_kept(
    file: Path, server: Answering, there: Ladder, login: LogIn
) -> None:
    file.parent.mkdir(parents=True)
    file.mkdir()
    done = login(server.url, *CODE, typed="ABCD-EFGH-2345-WXYZ\n")
    assert done.status == 1
    assert str(file) in one_line(done.err)
    assert there.codes


@pytest.mark.parametrize("token", ["", "a b", "x\r\nHost: y", "\x1b[2J" * 20, "x" * 10_000])
def test_a_token_that_is_none_is_not_kept(
    server: Answering, there: Ladder, login: LogIn, token: str
) -> None:
    there.documents["/redeem"] = {"token": token, "account": ACCOUNT}
    done = login(server.url, *CODE, typed="ABCD-EFGH-2345-WXYZ\n")
    assert "is no token of a ladder" in done.refusal
    assert read_logins() == Logins()


def test_logout_ends_the_token_there_and_here(
    run: Run, server: Answering, there: Ladder, login: LogIn
) -> None:
    login(server.url)
    done = run("ladder", "logout")
    assert (done.status, done.out) == (0, f"logged out of {server.url}\n")
    assert (there.token, read_logins()) == (None, Logins())
    for words in (["logout"], ["logout", server.url], ["whoami"], ["submit", "greedy"]):
        assert run("ladder", *words).status == 2
    there.token = TOKEN
    login(server.url)
    there.token = OTHER  # it has ended there
    assert run("ladder", "logout", server.url.partition("://")[2]).status == 0


def test_a_logout_without_the_ladder_forgets_the_token_and_says_so(
    run: Run, there: Ladder, login: LogIn
) -> None:
    with Answering(there) as server:
        login(server.url)
    done = run("ladder", "logout")
    assert done.status == 1
    assert "is valid until you revoke it: nobody answers at" in done.out
    assert read_logins() == Logins()


def test_the_token_of_the_environment_is_used_before_that_of_the_file(
    run: Run, file: Path, server: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", TOKEN)
    assert run("ladder", "whoami", "--remote", server.url).status == 0
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", OTHER)
    assert run("ladder", "whoami", "--remote", server.url).status == 2
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", "a token")
    done = run("ladder", "whoami", "--remote", server.url)
    assert "$DEEPSEA_LADDER_TOKEN is no token" in one_line(done.err)
    assert "a token" not in done.err
    assert not file.exists()


# ---------------------------------------------------------------------------- which ladder is meant


def test_which_ladder_is_meant(
    run: Run,
    tmp_path: Path,
    server: Answering,
    there: Ladder,
    login: LogIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there.documents["/games"] = {"games": [], "older": None}

    def asks_the_server(*words: object) -> bool:
        before = len(server.asked)
        run("ladder", "games", *words)
        return len(server.asked) > before

    assert not asks_the_server()
    assert "or name one on another machine with --remote" in one_line(run("ladder", "games").err)
    assert asks_the_server("--remote", server.url)
    login(server.url)
    name = server.url.partition("://")[2]
    assert asks_the_server()
    assert asks_the_server("--remote", name)
    assert asks_the_server("--remote", "127.0.0.1")
    assert not asks_the_server("--store", tmp_path / "ladder.db")
    monkeypatch.setenv("DEEPSEA_LADDER", str(tmp_path / "ladder.db"))
    assert not asks_the_server()
    assert asks_the_server("--remote", name)
    monkeypatch.delenv("DEEPSEA_LADDER")
    assert run("ladder", "init", "--isolation", "process").status == 0
    assert not asks_the_server()
    hint = f"there is a ladder on this machine, too: name this one with --remote {name}"
    assert hint in login(server.url).out
    both = run("ladder", "games", "--remote", name, "--store", "x.db")
    assert "--remote and --store exclude each other" in one_line(both.err)
    unknown = run("ladder", "games", "--remote", "ladder.example")
    assert f"you are logged in at {name}" in one_line(unknown.err)
    wrong = run("ladder", "games", "--store", server.url)
    assert "name it with --remote" in one_line(wrong.err)


@pytest.mark.parametrize(
    "words",
    [
        ("submit", "greedy", "--author", "anna"),
        ("submit", "greedy", "--bot-uids", "60000-60100"),
        ("withdraw", "greedy", "--reason", "x"),
    ],
)
def test_what_is_for_this_machine_alone_is_refused(
    run: Run, server: Answering, words: tuple[str, ...]
) -> None:
    done = run("ladder", *words, "--remote", server.url)
    assert words[-2] in done.refusal
    assert server.asked == []


@pytest.mark.parametrize(
    "words", [("submit", "greedy"), ("withdraw", "greedy"), ("author", "audit")]
)
def test_who_has_no_token_is_sent_to_login(
    run: Run, server: Answering, words: tuple[str, ...]
) -> None:
    done = run("ladder", *words, "--remote", server.url)
    assert f"run `deepsea-referee ladder login {server.url}`" in done.refusal
    assert server.asked == []


# --------------------------------------------------------------------------------- certificates


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> certificates.Made:
    return certificates.make(tmp_path_factory.mktemp("certificate"))


def test_an_unknown_certificate_is_accepted_by_its_fingerprint_alone(
    run: Run, there: Ladder, login: LogIn, made: certificates.Made
) -> None:
    print_ = fingerprint(made.certificate.read_text())
    with Answering(there, made.server()) as server:
        done = login(server.url)
        assert done.status == 2
        assert f"Its fingerprint is {print_}" in done.out
        assert "--fingerprint" in one_line(done.err)
        done = login(server.url, "--fingerprint", "ab" * 32)
        assert done.status == 2
        assert f"another fingerprint, {print_}" in one_line(done.err)
        assert server.asked == []
        done = login(server.url, "--fingerprint", f"SHA256:{print_.upper()}")
        assert (done.status, done.err) == (0, "")
        assert run("ladder", "whoami").status == 0


def test_the_user_is_asked_on_a_terminal(
    run: Run, there: Ladder, made: certificates.Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.prompt", lambda *_arguments, **_options: TOKEN)
    with Answering(there, made.server()) as server:
        for reply, status in (("n\n", 2), ("\n", 2), ("y\n", 0)):
            monkeypatch.setattr("sys.stdin", Tty(reply))
            done = run("ladder", "login", server.url)
            assert done.status == status, done
            assert bool(read_logins().ladders) is (status == 0)
            assert bool(server.asked) is (status == 0)


def test_without_a_login_an_unknown_certificate_is_refused(
    run: Run, there: Ladder, made: certificates.Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", TOKEN)
    with Answering(there, made.server()) as server:
        done = run("ladder", "whoami", "--remote", server.url)
        assert done.status == 1
        assert "is not trusted (self-signed certificate)" in one_line(done.err)
        assert server.asked == []


@pytest.mark.parametrize("by_the_pinned", [False, True])
def test_another_certificate_than_the_pinned_one_gets_nothing(
    run: Run,
    tmp_path: Path,
    there: Ladder,
    login: LogIn,
    made: certificates.Made,
    by_the_pinned: bool,
) -> None:
    changed = certificates.make(tmp_path, "changed", issuer=made if by_the_pinned else None)
    with Answering(there, made.server()) as server:
        found = fingerprint(made.certificate.read_text())
        assert login(server.url, "--fingerprint", found).status == 0
        before = len(server.asked)
        server.tls = changed.server()
        for words in (("whoami",), ("standings",), ("submit", "greedy")):
            done = run("ladder", *words)
            assert done.status == 2
            line = one_line(done.err)
            assert "has another certificate than the one that was pinned" in line
            assert fingerprint(changed.certificate.read_text()) in line
        assert len(server.asked) == before
        server.tls = made.server()
        assert run("ladder", "whoami").status == 0


def test_a_pinned_certificate_may_have_any_name_and_ends_in_time(
    tmp_path: Path, there: Ladder, login: LogIn
) -> None:
    elsewhere = certificates.make(tmp_path, "elsewhere", names="DNS:elsewhere.example")
    ended = certificates.make(tmp_path, "ended", days=-1)
    for made, status in ((elsewhere, 0), (ended, 2)):
        with Answering(there, made.server()) as server:
            found = fingerprint(made.certificate.read_text())
            done = login(server.url, "--fingerprint", found)
            assert done.status == status
            if status:
                assert "is not valid any more: certificate has expired" in one_line(done.err)
                assert server.asked == []


def test_a_certificate_that_the_system_trusts_has_to_have_the_name(
    run: Run,
    tmp_path: Path,
    there: Ladder,
    made: certificates.Made,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DEEPSEA_LADDER_TOKEN", TOKEN)
    elsewhere = certificates.make(tmp_path, "elsewhere", names="DNS:elsewhere.example")
    for one, status in ((made, 0), (elsewhere, 1)):
        monkeypatch.setenv("SSL_CERT_FILE", str(one.certificate))
        with Answering(there, one.server()) as server:
            done = run("ladder", "whoami", "--remote", server.url)
            assert done.status == status
            if status:
                assert "IP address mismatch" in one_line(done.err)
                assert server.asked == []


def test_a_proxy_of_the_environment_carries_tls_alone(
    run: Run, tmp_path: Path, there: Ladder, login: LogIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = certificates.make(tmp_path, names="DNS:elsewhere.example")
    url = "https://ladder.example"
    there.documents["/games"] = {"games": [], "older": None}
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Answering(there, made.server()) as server, Tunnel(server.port) as proxy:
        for name in ("all_proxy", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        found = fingerprint(made.certificate.read_text())
        assert login(url, "--fingerprint", found).status == 0
        assert run("ladder", "whoami").status == 0
        assert {asked.path for asked in proxy.asked} == {"ladder.example:443"}
        assert server.asked[-1].token == TOKEN
        assert not any(asked.token for asked in proxy.asked)
        assert TOKEN.encode() not in proxy.seen
        proxy.asked.clear()
        assert run("ladder", "games", "--remote", server.url).status == 1  # not a pinned one
        with Answering(there) as plain:
            assert run("ladder", "games", "--remote", plain.url).status == 0
        assert proxy.asked == []
    with Answering(lambda _asked: refusal("", "no", 407)) as refusing:
        monkeypatch.setenv("https_proxy", refusing.url)
        done = run("ladder", "whoami")
        assert done.status == 1
        assert f"the proxy does not reach {url}: 407" in one_line(done.err)
    for wrong in ("socks5://127.0.0.1:1", "x://y", "http://x:y"):
        monkeypatch.setenv("https_proxy", wrong)
        assert "the environment's proxy cannot be used" in run("ladder", "whoami").refusal


def test_a_server_without_tls_costs_a_line(login: LogIn) -> None:
    def reply() -> None:
        with listening.accept()[0] as connection:
            connection.sendall(b"HTTP/1.1 400 X\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        replying = threading.Thread(target=reply)
        replying.start()
        done = login(f"https://127.0.0.1:{listening.getsockname()[1]}")
        replying.join()
    assert done.status == 1
    assert "does not speak TLS" in one_line(done.err)


def test_nobody_there_costs_a_line(there: Ladder, login: LogIn) -> None:
    with Answering(there) as server:
        url = server.url
    done = login(url)
    assert done.status == 1
    assert f"nobody answers at {url}" in one_line(done.err)


def test_fingerprints_are_compared_however_they_are_written() -> None:
    one = " ".join(["abcd"] * 16)
    for other in (
        "ABCD" * 16,
        ":".join(["ab", "cd"] * 16),
        f"sha256:{'abcd' * 16}",
        f"SHA-256 {one}",
    ):
        assert same_fingerprint(one, other)
    assert not same_fingerprint(one, "abcd" * 15 + "abce")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://Ladder.Example", "https://ladder.example"),
        ("https://ladder.example:443/", "https://ladder.example"),
        (" https://ladder.example:8443/deep/sea/ ", "https://ladder.example:8443/deep/sea"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://127.3.2.1", "http://127.3.2.1"),
    ],
)
def test_an_address_is_written_in_one_way(text: str, url: str) -> None:
    assert read_url(text) == url
    assert read_url(url) == url


def test_a_certificate_that_cannot_be_read_is_no_pin() -> None:
    with pytest.raises(UserError, match="damaged"):
        tls_settings("no certificate")


# --------------------------------------------------------------------------------------- start


def test_asking_a_ladder_from_afar_loads_no_database(server: Answering) -> None:
    asked = (("whoami",), ("standings",), ("submit", "greedy"))
    commands = [("ladder", *words, "--remote", server.url) for words in asked]
    loaded = imported_by(*commands, DEEPSEA_LADDER_TOKEN=TOKEN)
    assert "deepsea_arena.api.remote" in loaded
    heavy = {"sqlalchemy", "alembic", "grpc", "starlette", "uvicorn", "deepsea_ladder.store"}
    assert not loaded & heavy
    assert len(server.asked) >= len(commands)


# It starts sooner; the same from afar is looked at in every run.
@pytest.mark.release
def test_reading_a_ladder_here_loads_no_client_no_sdk_and_no_analysis(tmp_path: Path) -> None:
    Store.create(tmp_path / "ladder.db").close()
    loaded = imported_by(("ladder", "standings", "--store", tmp_path / "ladder.db"))
    assert "deepsea_ladder.store" in loaded
    assert not loaded & {
        "httpx",
        "grpc",
        "starlette",
        "deepsea_sdk",
        "deepsea_arena.analysis",
    }


@pytest.mark.parametrize("command", ["run", "serve", "export", "requeue --all", "upgrade"])
def test_what_is_done_on_the_ladders_machine_says_so_to_who_is_logged_in_elsewhere(
    run: Run, command: str
) -> None:
    before = run("ladder", *command.split())
    assert "there is no ladder at" in one_line(before.err)
    assert "another machine" not in before.err
    url = "https://ladder.example"
    write_logins(read_logins().with_login(url, StoredLogin(token=TOKEN, author="anna")))
    done = run("ladder", *command.split())
    assert f"on the ladder's machine alone: run it where {url} is" in done.refusal
