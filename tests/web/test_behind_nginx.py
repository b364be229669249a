"""The class of docs/server.md, behind nginx with the settings of that page."""

from __future__ import annotations

import io
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from deepsea_arena.api.certificates import fingerprint
from deepsea_cli.ladder import options
from deepsea_ladder.season import Season
from deepsea_ladder.store import Store
from helpers import certificates, ladder
from helpers.certificates import Made
from helpers.commands import Run, serving

PAGE = Path(__file__).parents[2] / "docs" / "server.md"
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="no nginx (apt-get install nginx-light)"),
]


def ports(number: int) -> list[int]:
    """Ports that are free."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in found]


def settings_of_the_page(made: Made, proxy: int, pages: int) -> str:
    """The page's settings, with files and ports of this test."""
    (text,) = re.findall(r"^```nginx\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    for former, present in (
        ("listen 443", f"listen 127.0.0.1:{proxy}"),
        ("ladder.school.example", "localhost"),
        ("/etc/ssl/ladder/cert.pem", str(made.certificate)),
        ("/etc/ssl/ladder/key.pem", str(made.key)),
        ("127.0.0.1:8080", f"127.0.0.1:{pages}"),
    ):
        assert former in text
        text = text.replace(former, present)
    return str(text)


@contextmanager
def nginx(folder: Path, settings: str) -> Iterator[None]:
    """A server with these settings; it listens when this is entered."""
    own = "\n".join(f"{name}_temp_path {folder / name};" for name in TEMPORARY)
    file = folder / "nginx.conf"
    file.write_text(
        f"pid {folder / 'nginx.pid'};\nerror_log {folder / 'error.log'};\nworker_processes 1;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{own}\n{settings}}}\n"
    )
    command = [str(NGINX), "-p", str(folder), "-c", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run([*command, "-s", "stop"], check=True, capture_output=True)


def test_a_class_joins_and_reads_through_nginx(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "ladder.db"
    monkeypatch.setenv(options.VARIABLE, str(place))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Store.create(place) as store:
        store.seasons.open(Season(name="s1"), ladder.SEED)
    made = certificates.make(tmp_path, names="DNS:localhost")
    proxy, pages = ports(2)
    url = f"https://localhost:{proxy}"
    public = ("--public-url", url, "--trusted-proxy", "127.0.0.1")
    code = run("ladder", "codes", "--count", 1).out
    with (
        serving(place, "--no-run", "--port", pages, *public, scheme="https"),
        nginx(tmp_path, settings_of_the_page(made, proxy, pages)),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(code.encode())))
        known = ("--fingerprint", fingerprint(made.certificate.read_text()))
        done = run("ladder", "login", url, "--code", "-", "--author", "anna", *known)
        assert (done.status, done.err) == (0, "")
        who = run("ladder", "whoami", "-v")
        assert "anna (author)" in who.out
        assert run("ladder", "standings", "--remote", url).status == 0
        entries = json.loads(run("ladder", "author", "audit", "--author", "anna", "--json").out)[
            "entries"
        ]
    assert {entry["address"] for entry in entries} == {"127.0.0.0/24"}
