"""What a browser makes of Strict-Transport-Security, by whether it trusts the certificate."""

from __future__ import annotations

import hashlib
import subprocess
from base64 import b64encode
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Error, sync_playwright

from helpers import certificates, ladder
from helpers.chromium import find_chromium, launch
from helpers.commands import free_port, serving

pytestmark = pytest.mark.release


@pytest.mark.parametrize("trusted", [False, True])
def test_a_name_is_asked_for_by_tls_alone_once_a_trusted_certificate_has_said_so(
    tmp_path: Path, trusted: bool
) -> None:
    """A class that clicks the warning of `make-cert` away loses nothing else under that name."""
    program = find_chromium()
    if program is None:
        pytest.skip("Chromium is not installed (apt-get install chromium-headless-shell)")
    with ladder.created(tmp_path / "ladder.db") as store:
        ladder.stocked(store)
    made = certificates.make(tmp_path, names="DNS:ladder.example")
    openssl = ("openssl", "pkey", "-in", made.key, "-pubout", "-outform", "DER")
    public_key = subprocess.run(openssl, check=True, capture_output=True).stdout
    known = b64encode(hashlib.sha256(public_key).digest()).decode()
    switches = ["--host-resolver-rules=MAP ladder.example 127.0.0.1"]
    switches += [f"--ignore-certificate-errors-spki-list={known}"] if trusted else []
    port = free_port()
    url = f"https://ladder.example:{port}/"
    files = ("--tls-cert", made.certificate, "--tls-key", made.key)
    place, options = tmp_path / "ladder.db", ("--no-run", "--port", port, "--public-url", url)
    with (
        HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as other,
        serving(place, *options, *files, scheme="https"),
        sync_playwright() as playwright,
    ):
        # It answers 501, which is a page like any other.
        Thread(target=other.serve_forever, daemon=True).start()
        without_tls = f"http://ladder.example:{other.server_port}/"
        browser = launch(playwright, program, *switches)
        page = browser.new_context(ignore_https_errors=not trusted).new_page()
        answer = page.goto(url)
        assert answer is not None
        assert "strict-transport-security" in answer.headers
        if trusted:
            with pytest.raises(Error, match="ERR_SSL_PROTOCOL_ERROR"):
                page.goto(without_tls)
        else:
            page.goto(without_tls)
            assert page.url == without_tls
        browser.close()
        other.shutdown()
