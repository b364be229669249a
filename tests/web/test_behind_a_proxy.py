"""The class of docs/server.md, behind nginx and Caddy with their settings in deploy/."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx
import pytest

from deepsea_arena.api.certificates import fingerprint
from deepsea_cli.ladder import options
from deepsea_ladder.season import Season
from helpers import certificates, ladder
from helpers.certificates import Made
from helpers.commands import Run, free_port, serving
from helpers.deploy import DEPLOY

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
CADDY = shutil.which("caddy")
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
def nginx(folder: Path, made: Made, proxy: int, pages: int) -> Iterator[None]:
    """It listens when this is entered."""
    changes = {
        "listen 443": f"listen 127.0.0.1:{proxy}",
        "ladder.school.example": "localhost",
        "/etc/ssl/ladder/cert.pem": str(made.certificate),
        "/etc/ssl/ladder/key.pem": str(made.key),
        "127.0.0.1:8080": f"127.0.0.1:{pages}",
    }
    own = "\n".join(f"{name}_temp_path {folder / name};" for name in TEMPORARY)
    file = folder / "nginx.conf"
    file.write_text(
        f"pid {folder / 'nginx.pid'};\nerror_log {folder / 'error.log'};\nworker_processes 1;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{own}\n{settings('nginx.conf', changes)}}}\n"
    )
    command = [str(NGINX), "-p", str(folder), "-c", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*command, "-s", "stop"], check=True, capture_output=True)


@contextmanager
def caddy(folder: Path, made: Made, proxy: int, pages: int) -> Iterator[None]:
    """It listens when this is entered; what it keeps is in this folder, and nobody steers it."""
    tls = f"tls {made.certificate} {made.key}"
    changes = {
        "ladder.school.example {": f"https://localhost:{proxy} {{\n\tbind 127.0.0.1\n\t{tls}",
        "127.0.0.1:8080": f"127.0.0.1:{pages}",
    }
    file = folder / "Caddyfile"
    own = f"{{\n\tadmin off\n\tauto_https off\n\tstorage file_system {folder / 'caddy'}\n}}\n"
    file.write_text(own + settings("Caddyfile", changes))
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


PROXIES = [
    pytest.param(
        nginx,
        marks=pytest.mark.skipif(NGINX is None, reason="no nginx (apt-get install nginx-light)"),
    ),
    pytest.param(
        caddy,
        marks=[
            pytest.mark.skipif(CADDY is None, reason="no Caddy (apt-get install caddy)"),
            pytest.mark.release,  # 40 MB, which nobody installs for one test
        ],
    ),
]


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
        store.seasons.open(Season(name="s1"), ladder.SEED)
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
