"""What the SDK offers, and what it costs to import."""

from __future__ import annotations

import subprocess
import sys
from types import FunctionType, ModuleType

import deepsea_sdk
from helpers.scripted import without_referee


def test_all_is_exact() -> None:
    public = {
        name
        for name, value in vars(deepsea_sdk).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert sorted(deepsea_sdk.__all__) == sorted(public)


def test_everything_offered_is_documented() -> None:
    undocumented = [
        name
        for name in deepsea_sdk.__all__
        if isinstance(value := getattr(deepsea_sdk, name), type | FunctionType)
        and not value.__doc__
    ]
    assert undocumented == []


def imported_by(statement: str) -> set[str]:
    """The top-level packages, less the standard library, that a statement imports afresh."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules)-before)"
    done = subprocess.run(
        (sys.executable, "-c", program),
        env=without_referee(),
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()} - sys.stdlib_module_names


def test_a_bot_imports_nothing_but_sdk_and_rules() -> None:
    assert imported_by("from deepsea_sdk import Bot, run") == {"deepsea_rules", "deepsea_sdk"}


def test_a_bot_does_not_wait_for_slow_modules_of_the_standard_library() -> None:
    program = "import sys, deepsea_sdk; print(*sys.modules)"
    done = subprocess.run(
        (sys.executable, "-S", "-c", program),
        env={**without_referee(), "PYTHONPATH": ":".join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not {"asyncio", "multiprocessing", "logging", "ssl"} & set(done.stdout.split())


def test_the_client_needs_grpcio_and_protobuf_alone() -> None:
    theirs = imported_by("import grpc, google.protobuf.message")
    ours = imported_by("import deepsea_sdk.client") - theirs
    assert ours == {"deepsea_rules", "deepsea_sdk"}
