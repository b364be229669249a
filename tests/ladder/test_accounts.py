"""Secrets have one form each; failures make somebody wait; little of an address is kept."""

from __future__ import annotations

import hashlib

import pytest

from deepsea_ladder.accounts import (
    SecretKind,
    address_key,
    address_prefix,
    new_secret,
    secret_digest,
)
from deepsea_ladder.limits import RemoteLimits

SECRETS = [bytes(32), bytes([255]) * 32, hashlib.sha256(b"deepsea-test").digest()]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_token_is_known_by_its_hash(secret: bytes) -> None:
    token, digest = new_secret(SecretKind.TOKEN, secret)
    assert token == f"dsl_{secret.hex()}"
    assert digest == secret_digest(SecretKind.TOKEN, token)
    assert digest == hashlib.sha256(token.encode()).hexdigest()


@pytest.mark.parametrize("kind", SecretKind)
def test_every_secret_is_another_and_of_one_kind(kind: SecretKind) -> None:
    secrets = {new_secret(kind, entropy)[0] for entropy in SECRETS}
    assert len(secrets) == len(SECRETS)
    for secret in secrets:
        assert [one for one in SecretKind if secret_digest(one, secret)] == [kind]


@pytest.mark.parametrize(
    "change",
    [
        lambda token: f" {token}",
        lambda token: f"{token}\n",
        lambda token: token[:-1],
        lambda token: token.upper(),
        lambda token: token.replace("dsl_", "dsp_"),
        lambda token: token[:-1] + "g",
        lambda token: token[:9] + "\N{ARABIC-INDIC DIGIT ONE}" + token[10:],
        lambda token: token * 200,
        lambda token: "",
    ],
)
def test_what_is_mistyped_is_no_token(change) -> None:  # type: ignore[no-untyped-def]
    token, _ = new_secret(SecretKind.TOKEN, SECRETS[2])
    assert secret_digest(SecretKind.TOKEN, change(token)) is None


@pytest.mark.parametrize("secret", SECRETS)
def test_a_code_has_80_bits_and_is_read_as_people_write_it(secret: bytes) -> None:
    code, digest = new_secret(SecretKind.CODE, secret)
    assert [len(part) for part in code.split("-")] == [4, 4, 4, 4]
    for written in (
        code.lower(),
        code.replace("-", ""),
        f"  {code.replace('-', ' ')} ",
        code.replace("O", "0").replace("I", "1").replace("B", "8"),
    ):
        assert secret_digest(SecretKind.CODE, written) == digest


@pytest.mark.parametrize(
    "text", ["", "AAAA-AAAA-AAAA", "AAAA-AAAA-AAAA-AAA9", "ÄAAA-AAAA-AAAA-AAAA", "A" * 10_000]
)
def test_what_is_no_code_has_no_digest(text: str) -> None:
    assert secret_digest(SecretKind.CODE, text) is None


def test_a_session_is_known_by_its_hash() -> None:
    secret, digest = new_secret(SecretKind.SESSION, SECRETS[2])
    assert digest == hashlib.sha256(secret.encode()).hexdigest()
    for wrong in ("", secret[:-1], secret + "0", secret.upper(), secret * 100):
        assert secret_digest(SecretKind.SESSION, wrong) is None


@pytest.mark.parametrize(
    ("address", "counted", "kept"),
    [
        ("192.0.2.77", "192.0.2.77", "192.0.2.0/24"),
        ("::ffff:192.0.2.77", "192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64", "2001:db8:1::/48"),
        ("::1", "::/64", "::/48"),
        ("fe80::1%eth0", "fe80::/64", "fe80::/48"),
        ("", "", ""),
        ("unix", "unix", ""),
    ],
)
def test_failures_are_counted_by_who_can_change_an_address(
    address: str, counted: str, kept: str
) -> None:
    assert address_key(address) == counted
    assert address_prefix(address) == kept


def test_every_limit_has_a_line() -> None:
    table = RemoteLimits(queue=7).table()
    assert {line.name: line.value for line in table}["queue"] == 7
    assert len({line.name for line in table}) == len(table)
    for line in table:
        assert line.value > 0
        assert line.unit
        assert line.about.endswith(".")
