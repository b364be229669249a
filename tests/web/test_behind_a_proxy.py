"""The class of docs/server.md, behind nginx and Caddy with their settings in deploy/.

Requests of proxies as Debian installs them are never taken for those of this machine.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from deepsea_arena.api.remote import fingerprint
from deepsea_cli.ladder import options
from deepsea_ladder.season import SeasonSettings
from helpers import certificates, ladder
from helpers.certificates import Made
from helpers.commands import Run, free_port, serving
from helpers.deploy import DEPLOY
from helpers.tools import path_of

NGINX, CADDY = path_of("nginx"), path_of("caddy")
PROXY_PARAMS = """
proxy_set_header Host $host;
proxy_set_header X-Real-IP $remote_addr;
proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
proxy_set_header X-Forwarded-Proto $scheme;
"""
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

pytestmark = pytest.mark.slow


def settings(name: str, changes: dict[str, str]) -> str:
    """The settings of a proxy, with files and ports of this test."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    for former, present in changes.items():
        assert former in text
        text = text.replace(former, present)
    return text


@contextmanager
def started_nginx(folder: Path, site: str) -> Iterator[None]:
    """It listens when this is entered."""
    own = "\n".join(f"{name}_temp_path {folder / name};" for name in TEMPORARY)
    file = folder / "nginx.conf"
    file.write_text(
        f"pid {folder / 'nginx.pid'};\nerror_log {folder / 'error.log'};\nworker_processes 1;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{own}\n{site}}}\n"
    )
    command = [str(NGINX), "-p", str(folder), "-c", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*command, "-s", "stop"], check=True, capture_output=True)


@contextmanager
def started_caddy(folder: Path, site: str) -> Iterator[None]:
    """It listens when this is entered; what it keeps is in this folder, and nobody steers it."""
    file = folder / "Caddyfile"
    own = f"{{\n\tadmin off\n\tauto_https off\n\tstorage file_system {folder / 'caddy'}\n}}\n"
    file.write_text(own + site)
    command = [str(CADDY), "run", "--adapter", "caddyfile", "--config", str(file)]
    with subprocess.Popen(
        command, env={**os.environ, "HOME": str(folder)}, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            assert any("serving initial configuration" in line for line in process.stderr)
            yield
        finally:
            process.terminate()
            process.stderr.read()


def nginx(folder: Path, made: Made, proxy: int, pages: int) -> AbstractContextManager[None]:
    """Nginx with its settings in deploy/."""
    changes = {
        "listen 443": f"listen 127.0.0.1:{proxy}",
        "ladder.school.example": "localhost",
        "/etc/ssl/ladder/cert.pem": str(made.certificate),
        "/etc/ssl/ladder/key.pem": str(made.key),
        "127.0.0.1:8080": f"127.0.0.1:{pages}",
    }
    return started_nginx(folder, settings("nginx.conf", changes))


def caddy(folder: Path, made: Made, proxy: int, pages: int) -> AbstractContextManager[None]:
    """Caddy with its settings in deploy/."""
    tls = f"tls {made.certificate} {made.key}"
    changes = {
        "ladder.school.example {": f"https://localhost:{proxy} {{\n\tbind 127.0.0.1\n\t{tls}",
        "127.0.0.1:8080": f"127.0.0.1:{pages}",
    }
    return started_caddy(folder, settings("Caddyfile", changes))


def bare_nginx(
    folder: Path, proxy: int, pages: int, parameters: str = ""
) -> AbstractContextManager[None]:
    """Nginx with `proxy_pass` in its default site, and nothing else."""
    passing = f"location / {{\nproxy_pass http://127.0.0.1:{pages};\n{parameters}}}\n"
    return started_nginx(folder, f"server {{\nlisten 127.0.0.1:{proxy};\n{passing}}}\n")


def debian_nginx(folder: Path, proxy: int, pages: int) -> AbstractContextManager[None]:
    """The same with Debian's file proxy_params."""
    return bare_nginx(folder, proxy, pages, PROXY_PARAMS)


def bare_caddy(folder: Path, proxy: int, pages: int) -> AbstractContextManager[None]:
    """Caddy with the line for a proxy in its default file."""
    site = f"http://:{proxy} {{\n\tbind 127.0.0.1\n\treverse_proxy localhost:{pages}\n}}\n"
    return started_caddy(folder, site)


has_nginx = pytest.mark.needs("nginx")
has_caddy = [
    pytest.mark.needs("caddy"),
    pytest.mark.release,  # 40 MB, which nobody installs for one test
]
PROXIES = [pytest.param(nginx, marks=has_nginx), pytest.param(caddy, marks=has_caddy)]


@pytest.mark.parametrize("behind", PROXIES)
def test_a_class_joins_and_reads_through_a_proxy(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    behind: Callable[[Path, Made, int, int], AbstractContextManager[None]],
) -> None:
    place = tmp_path / "ladder.db"
    monkeypatch.setenv(options.VARIABLE, str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with ladder.created(place) as store:
        store.seasons.open(SeasonSettings(name="s1"), ladder.SEED)
    made = certificates.make(tmp_path, names="DNS:localhost")
    proxy, pages = free_port(), free_port()
    url = f"https://localhost:{proxy}"
    public = ("--public-url", url, "--trusted-proxy", "127.0.0.1")
    code = run("ladder", "codes", "--count", 1).out
    with (
        serving(place, "--no-run", "--port", pages, *public, scheme="https"),
        behind(tmp_path, made, proxy, pages),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(code.encode())))
        known = ("--fingerprint", fingerprint(made.certificate.read_text()))
        done = run("ladder", "login", url, "--code", "-", "--author", "anna", *known)
        assert (done.status, done.err) == (0, "")
        who = run("ladder", "whoami")
        assert "anna (author)" in who.out
        assert run("ladder", "standings", "--remote", url).status == 0
        page = httpx.get(url, verify=False)
        assert page.headers["strict-transport-security"] == "max-age=31536000"
        entries = json.loads(run("ladder", "author", "audit", "--author", "anna", "--json").out)[
            "entries"
        ]
    assert {entry["address"] for entry in entries} == {"127.0.0.0/24"}


REFUSED = (403, 403)
COUNTED = (200, 429)
NEVER_COUNTED = (200, 200)
PUBLIC = ("--public-url", "https://games.example:1")
NAMED = (*PUBLIC, "--trusted-proxy", "127.0.0.1")
DEFAULTS = [
    *(
        pytest.param(bare_nginx, options, answers, marks=has_nginx)
        for options, answers in (((), REFUSED), (PUBLIC, COUNTED), (NAMED, COUNTED))
    ),
    *(
        pytest.param(behind, options, answers, marks=marks)
        for behind, marks in ((debian_nginx, has_nginx), (bare_caddy, has_caddy))
        for options, answers in (((), REFUSED), (PUBLIC, REFUSED), (NAMED, NEVER_COUNTED))
    ),
]


@pytest.mark.release
@pytest.mark.parametrize(("behind", "options", "answers"), DEFAULTS)
def test_requests_of_a_proxy_with_its_default_file_are_known_for_such(
    run: Run,
    tmp_path: Path,
    behind: Callable[[Path, int, int], AbstractContextManager[None]],
    options: tuple[str, ...],
    answers: tuple[int, int],
) -> None:
    """The first and the last of more requests than an address may send in a minute."""
    place = tmp_path / "ladder.db"
    with ladder.created(place) as store:
        store.seasons.open(SeasonSettings(name="s1"), ladder.SEED)
    assert run("ladder", "settings", "pages_per_minute", 10, "--store", place).status == 0
    proxy, pages = free_port(), free_port()
    asked = {"Host": "games.example" if options else "localhost"}
    scheme = "https" if options else "http"
    with serving(place, "--no-run", *options, "--port", pages, scheme=scheme) as (process, _):
        with behind(tmp_path, proxy, pages):
            said = [httpx.get(f"http://localhost:{proxy}/how", headers=asked) for _ in range(15)]
        process.terminate()
        logged = process.stderr.read()
    assert (said[0].status_code, said[-1].status_code) == answers
    remedy = "--trusted-proxy 127.0.0.1"
    assert (remedy in said[0].text, logged.count(f"{remedy},")) == (answers == REFUSED,) * 2
