"""Generate the `_pb` folders from proto/, or check that they are up to date.

    python tools/gen_proto.py            write the folders anew
    python tools/gen_proto.py --check    exit 1 if a folder is not what its proto gives

Invariants: the folders hold nothing but what this program writes; generated code is never edited.
It needs grpcio-tools and mypy-protobuf in the environment of the interpreter that runs it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
TOOLS: Final = ("grpcio-tools", "mypy-protobuf")


class Generated(NamedTuple):
    """A folder of generated code."""

    proto: Path
    package: Path
    """The import package, as a path."""
    base: Path
    """The folder that the import package is in."""

    @property
    def target(self) -> Path:
        """The folder, from the root."""
        return self.base / self.package

    @property
    def init(self) -> str:
        """The text of its `__init__.py`."""
        return f'"""Generated from {self.proto} by tools/gen_proto.py; not to be edited."""\n'


ALL: Final = (
    Generated(Path("proto/deepsea/play/v1/play.proto"), Path("deepsea_sdk/_pb"), Path("sdk")),
)


class GenerationError(Exception):
    """The generator is not there, or does not accept the proto."""


def main() -> int:
    """Returns the exit status: 0 done, 1 drift, 2 cannot generate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on drift")
    check = parser.parse_args().check
    try:
        tools = ", ".join(f"{tool} {installed(tool)}" for tool in TOOLS)
        return max(one_folder(generated, tools, check=check) for generated in ALL)
    except GenerationError as error:
        print(f"cannot generate: {error}", file=sys.stderr)
        return 2


def one_folder(generated: Generated, tools: str, *, check: bool) -> int:
    """Write one of the folders, or compare it; returns the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = generate(generated, Path(folder))
        if check:
            return report(generated, drift(ROOT / generated.target, fresh), tools)
        replace(ROOT / generated.target, fresh)
        print(f"{generated.target} written with {tools}")
    return 0


def installed(tool: str) -> str:
    """The version of a tool in this environment."""
    try:
        return version(tool)
    except PackageNotFoundError:
        raise GenerationError(
            f"{tool} is not installed for {sys.executable}: pip install -e '.[dev]'"
        ) from None


def generate(generated: Generated, folder: Path) -> Path:
    """Generate below `folder`; returns the package's folder in it."""
    plugins = {
        f"protoc-gen-{name}": Path(sysconfig.get_path("scripts"), f"protoc-gen-{name}")
        for name in ("mypy", "mypy_grpc")
    }
    command: list[str | Path] = [
        sys.executable,
        *("-m", "grpc_tools.protoc"),
        # A virtual path: the imports between the generated modules come out as they are shipped.
        f"-I{generated.package}={generated.proto.parent}",
        *(f"--plugin={name}={path}" for name, path in plugins.items()),
        f"--python_out={folder}",
        f"--grpc_python_out={folder}",
        f"--mypy_out=quiet:{folder}",
        f"--mypy_grpc_out=quiet:{folder}",
        generated.proto,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip() or f"protoc exited with {done.returncode}"
        raise GenerationError(f"{generated.proto}: {said}")
    # For programs in languages that read the proto itself.
    shutil.copy(ROOT / generated.proto, folder / generated.package)
    (folder / generated.package / "__init__.py").write_text(generated.init, encoding="utf-8")
    return folder / generated.package


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder, less what Python itself leaves there."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if "__pycache__" not in path.parts
    }


def drift(old: Path, fresh: Path) -> list[str]:
    """The files that are missing, too many or different."""
    was, will = content(old), content(fresh)
    return sorted(name for name in was.keys() | will.keys() if was.get(name) != will.get(name))


def report(generated: Generated, names: list[str], tools: str) -> int:
    """Say what has drifted; returns the exit status."""
    if names:
        print(
            f"{generated.target} is not what {generated.proto} gives with {tools} "
            f"({', '.join(names)}): "
            "run `make proto` and commit the result",
            file=sys.stderr,
        )
    return bool(names)


def replace(old: Path, fresh: Path) -> None:
    """Put the fresh folder where the old one is."""
    shutil.rmtree(old, ignore_errors=True)
    shutil.copytree(fresh, old)


if __name__ == "__main__":
    sys.exit(main())
