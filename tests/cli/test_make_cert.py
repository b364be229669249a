"""`ladder make-cert`: certificates that clients can be shown, and pin."""

from __future__ import annotations

import shlex
import socket
import ssl
import stat
from pathlib import Path

import pytest

from deepsea_arena.api import remote
from deepsea_web.access import Certificate, access
from deepsea_web.serve import ServeOptions
from helpers.answering import Answering
from helpers.commands import Run

pytestmark = pytest.mark.needs("openssl")


def test_a_client_that_knows_the_certificate_trusts_the_server(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    done = run("ladder", "make-cert", folder, "--host", "127.0.0.1", "--host", "ladder.example")
    assert (done.status, done.err) == (0, "")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert remote.fingerprint(certificate.read_text()) in done.out
    assert "PRIVATE" not in done.out
    context = Certificate(certificate, key).context()
    with Answering(lambda _asked: b"x", context) as server:
        for name in ("127.0.0.1", "ladder.example"):
            knows = ssl.create_default_context(cafile=str(certificate))
            with (
                socket.create_connection(("127.0.0.1", server.port)) as plain,
                knows.wrap_socket(plain, server_hostname=name) as secured,
            ):
                secured.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert secured.recv(1) == b"x"


@pytest.mark.parametrize("host", ["ladder.example", "192.0.2.7", "2001:db8::7"])
def test_the_line_that_serves_with_it_is_one_that_serve_takes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    asked: list[ServeOptions] = []
    monkeypatch.setattr(
        "deepsea_web.serve.serve", lambda target, options, announce: asked.append(options)
    )
    made = run("ladder", "make-cert", tmp_path / "a folder", "--host", host)
    program, *words = shlex.split(made.out.splitlines()[-1])
    done = run(*words, "--store", tmp_path / "ladder.db")
    assert (program, done.status, done.err) == ("deepsea-referee", 0, "")
    (options,) = asked
    reach = access(options.host, options.port, public_url=options.public_url, tls=True)
    assert reach.canonical("/join") == f"{options.public_url}/join"
    assert options.tls_cert == tmp_path / "a folder" / "cert.pem"


def test_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("mine")
    assert "is there already" in run("ladder", "make-cert", tmp_path, "--host", "127.0.0.1").refusal
    assert (tmp_path / "key.pem").read_text() == "mine"
    assert not (tmp_path / "cert.pem").exists()


@pytest.mark.parametrize(
    "host", ["", "a b", "x,DNS:evil.example", "-x", "x.", "ü.example", "a" * 300, "*.example"]
)
def test_hosts_are_names_or_addresses(run: Run, tmp_path: Path, host: str) -> None:
    assert run("ladder", "make-cert", tmp_path / "tls", "--host", host).refusal
    assert not (tmp_path / "tls").exists()


def test_without_openssl_it_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = run("ladder", "make-cert", tmp_path / "tls", "--host", "127.0.0.1")
    assert "apt-get install openssl" in done.refusal
