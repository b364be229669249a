"""What testssl.sh finds of a ladder with a certificate of its own; for a release: it is slow."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from deepsea_ladder.store import Store
from helpers import certificates, ladder
from helpers.commands import free_port, serving
from helpers.tools import path_of

KNOWN = {
    "cert_chain_of_trust",  # the certificate of this test signs itself,
    "cert_revocation",  # so nobody can revoke it
    "DNS_CAArecord",
    "BREACH",  # pages that are packed have nothing secret
}
"""What it finds that is so on purpose, or of this test's making."""


@pytest.mark.release
@pytest.mark.needs("testssl")
def test_testssl_finds_nothing_else(tmp_path: Path) -> None:
    program = path_of("testssl")
    assert program is not None
    with Store.create(tmp_path / "ladder.db") as store:
        ladder.stocked(store)
    made = certificates.make(tmp_path, names="IP:127.0.0.1", days=90)
    port, found = free_port(), tmp_path / "found.json"
    files = ("--tls-cert", made.certificate, "--tls-key", made.key)
    public = ("--no-run", "--port", port, "--public-url", f"https://ladder.example:{port}")
    looking = ("--quiet", "--color", "0", "--warnings", "off", "--jsonfile", str(found))
    parts = ("--protocols", "--std", "--pfs", "--server-defaults", "--headers", "--vulnerable")
    with serving(tmp_path / "ladder.db", *public, *files, scheme="https"):
        words = [program, *looking, *parts, f"https://127.0.0.1:{port}"]
        subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    lines = json.loads(found.read_text(encoding="utf-8"))
    severe = {one["id"] for one in lines if one["severity"] not in ("OK", "INFO", "WARN", "DEBUG")}
    assert severe <= KNOWN
    said = {one["id"]: one["finding"] for one in lines}
    assert {"TLS1_2", "HSTS_time", "LUCKY13", "BREACH"} <= said.keys()  # it has looked
