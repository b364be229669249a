"""`make check` would notice generated code that is not what the proto gives."""

from __future__ import annotations

import importlib.util
import re
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "tools" / "gen_proto.py"
PROTOS = sorted((ROOT / "proto").rglob("*.proto"))


@pytest.fixture(scope="module")
def gen_proto() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_proto", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_difference_is_drift(gen_proto: ModuleType, tmp_path: Path) -> None:
    old, fresh = tmp_path / "old", tmp_path / "fresh"
    for folder, files in (
        (old, {"same.py": "1", "changed.py": "1", "gone.py": "1", "__pycache__/x.pyc": "1"}),
        (fresh, {"same.py": "1", "changed.py": "2", "new.py": "1"}),
    ):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    assert gen_proto.drift(old, fresh) == ["changed.py", "gone.py", "new.py"]


def test_drift_is_told_in_one_line(
    gen_proto: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gen_proto.report(gen_proto.ALL[0], ["play_pb2.py"], "protoc 1") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "play_pb2.py" in line
    assert "make proto" in line


def test_code_is_generated_from_every_proto(gen_proto: ModuleType) -> None:
    assert sorted(ROOT / generated.proto for generated in gen_proto.ALL) == PROTOS


@pytest.mark.parametrize("proto", PROTOS, ids=lambda proto: proto.name)
def test_everything_in_the_proto_is_explained(proto: Path) -> None:
    lines = proto.read_text(encoding="utf-8").splitlines()
    bare = [
        line
        for before, line in pairwise(lines)
        if re.match(r"\s*(message|enum|service|rpc|oneof) |.* = \d+;$", line)
        and not before.strip().startswith("//")
    ]
    assert bare == []
