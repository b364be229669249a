"""What is shipped: which package may import what, what the wheels hold, and that they play.

The slow tests build both wheels and install one after the other into an environment.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from build import ProjectBuilder
from build.env import DefaultIsolatedEnv

import deepsea_sdk

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    folder.name: folder
    for folder in sorted(ROOT.glob("*/deepsea_*"))
    if (folder / "__init__.py").is_file()
}

# What each package may import beside itself and the standard library.
ARROWS = {
    "deepsea_rules": set[str](),
    "deepsea_bundle": {"deepsea_rules"},
    # numpy, gymnasium and pettingzoo: behind the extras `learn` and `pettingzoo`.
    "deepsea_sdk": {"deepsea_rules", "grpc", "google", "gymnasium", "numpy", "pettingzoo"},
    "deepsea_bots": {"deepsea_rules", "deepsea_sdk"},
    "deepsea_ladder": {
        *("deepsea_bundle", "deepsea_rules", "alembic", "msgspec", "psycopg", "sqlalchemy"),
        "trueskill",
    },
    "deepsea_referee": {
        *("deepsea_bundle", "deepsea_rules", "deepsea_sdk"),
        # psutil: where there is no /proc.
        *("google", "grpc", "grpc_health", "grpc_reflection", "msgspec", "packaging", "psutil"),
    },
    "deepsea_arena": {
        *("deepsea_bundle", "deepsea_rules", "deepsea_sdk", "deepsea_ladder", "deepsea_referee"),
        # The ladder's API from afar.
        *("httpx", "msgspec"),
        # Behind the extra `cluster`.
        "distributed",
    },
    "deepsea_web": {
        *("deepsea_bundle", "deepsea_rules", "deepsea_sdk", "deepsea_ladder", "deepsea_referee"),
        *("deepsea_arena", "jinja2", "msgspec", "prometheus_client", "python_multipart"),
        *("starlette", "uvicorn"),
    },
    "deepsea_cli": {
        *("deepsea_bundle", "deepsea_rules", "deepsea_sdk", "deepsea_ladder", "deepsea_referee"),
        *("deepsea_arena", "deepsea_web", "click", "grpc", "msgspec", "rich"),
    },
}


def project(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def imports(file: Path) -> Iterator[str]:
    """Top-level name of every absolute import of a file, wherever it stands."""
    found = re.findall(
        r"^ *(?:from (\w+)[\w.]* import|import (\w+))", file.read_text("utf-8"), re.M
    )
    return (one or other for one, other in found)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_imports_only_what_lies_below_it(package: str) -> None:
    allowed = ARROWS[package] | {package, "_typeshed"} | sys.stdlib_module_names  # typed by it
    strangers = [
        f"{file.relative_to(ROOT)}: {name}"
        for file in sorted(PACKAGES[package].rglob("*.py"))
        for name in imports(file)
        if name not in allowed
    ]
    assert strangers == []


def test_the_wheels_ship_every_package_once() -> None:
    shipped = [
        Path(path).name
        for pyproject in ("pyproject.toml", "sdk/pyproject.toml")
        for path in project(pyproject)["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ]
    assert sorted(shipped) == sorted(PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_typed_for_those_who_install_it(package: str) -> None:
    assert (PACKAGES[package] / "py.typed").is_file()


def test_both_distributions_read_their_version_from_one_place() -> None:
    paths = set()
    for pyproject in ("pyproject.toml", "sdk/pyproject.toml"):
        settings = project(pyproject)
        assert settings["project"]["dynamic"] == ["version"]
        paths.add((ROOT / pyproject).parent / settings["tool"]["hatch"]["version"]["path"])
    assert len(paths) == 1


def test_the_referee_depends_on_the_sdk_of_its_version_and_asks_for_no_less() -> None:
    whole, slim = (project(path)["project"] for path in ("pyproject.toml", "sdk/pyproject.toml"))
    assert f"deepsea-sdk=={deepsea_sdk.__version__}" in whole["dependencies"]
    assert set(slim["dependencies"]) < set(whole["dependencies"])
    for extra in ("learn", "pettingzoo"):
        assert whole["optional-dependencies"][extra] == [f"deepsea-sdk[{extra}]"]
    assert slim["requires-python"] == whole["requires-python"]


def test_both_distributions_carry_the_licence() -> None:
    assert (ROOT / "sdk/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


# Built and installed


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed; what it said is shown if it does not."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment without any package."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, symlinks=True)
    return folder / "bin"


def pip(programs: Path, *words: str | Path) -> None:
    """Run this interpreter's pip on an environment: one of its own takes seconds to install."""
    run(sys.executable, "-m", "pip", "--python", programs / "python", *words, cwd=programs)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """deepsea-referee's wheel and deepsea-sdk's."""
    out = tmp_path_factory.mktemp("wheels")
    with DefaultIsolatedEnv() as environment:  # one for both, which takes less time
        installed = set[str]()
        for folder in (ROOT, ROOT / "sdk"):
            builder = ProjectBuilder.from_isolated_env(environment, folder)
            environment.install(builder.build_system_requires - installed)
            installed |= builder.build_system_requires
            assert builder.get_requires_for_build("wheel") == set()
            builder.build("wheel", out)
    (whole,) = out.glob("deepsea_referee-*.whl")
    (slim,) = out.glob("deepsea_sdk-*.whl")
    return whole, slim


def content(wheel: Path) -> dict[str, int]:
    """Path and checksum of what the wheel puts beside other people's packages."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            file.filename: file.CRC
            for file in archive.infolist()
            if not file.filename.partition("/")[0].endswith(".dist-info")
        }


@pytest.mark.slow
def test_wheels_use_no_names_but_their_own(wheels: tuple[Path, Path]) -> None:
    whole, slim = map(content, wheels)
    own = {"deepsea_rules", "deepsea_bundle", "deepsea_sdk"}
    assert {path.partition("/")[0] for path in whole} == set(PACKAGES) - own
    assert {path.partition("/")[0] for path in slim} == own
    # What pages are made of is data, which a wheel holds only if its settings say so.
    web = PACKAGES["deepsea_web"].parent
    data = {".css", ".html", ".js", ".svg"}
    files = {path for path in PACKAGES["deepsea_web"].rglob("*") if path.suffix in data}
    assert {path.suffix for path in files} == data
    assert {path.relative_to(web).as_posix() for path in files} <= whole.keys()


@pytest.mark.release
def test_the_sdk_alone_is_enough_for_a_bot_and_the_referee_is_added_and_removed(
    wheels: tuple[Path, Path], programs: Path, tmp_path: Path
) -> None:
    """One after the other in one environment, since what both need takes long to install.

    Before a release, when somebody is to install them; what they import and hold is tested above.
    """
    whole, slim = wheels
    python = programs / "python"
    pip(programs, "install", "--quiet", "--no-compile", slim)
    pip(programs, "check")
    seek = "import importlib.util as i; print(*map(i.find_spec, ('deepsea_referee', 'click')))"
    assert run(python, "-c", seek, cwd=tmp_path).stdout == "None None\n"
    bot = tmp_path / "bot.py"
    bot.write_text("from deepsea_sdk import Bot, run\nrun(Bot)\n", encoding="utf-8")
    alone = subprocess.run((python, bot), cwd=tmp_path, capture_output=True, text=True, check=False)
    # Nobody has told it where the referee is, and it says so.
    assert (alone.returncode, alone.stdout) == (2, "")
    assert len(alone.stderr.splitlines()) == 1

    # From both wheels, without a look at an index for ours.
    pip(programs, "install", "--quiet", "--no-compile", "--find-links", slim.parent, whole)
    pip(programs, "check")
    referee = programs / "deepsea-referee"
    play = (referee, "match", "greedy", "cautious", "random", "--games", "6")
    assert "greedy" in run(*play, "--out", "match", cwd=tmp_path).stdout
    run(referee, "verify", *(tmp_path / "match").glob("game-*.json"), cwd=tmp_path)

    pip(programs, "uninstall", "--quiet", "--yes", "deepsea-referee")
    run(python, "-c", "import deepsea_rules, deepsea_sdk", cwd=tmp_path)


def test_where_processes_cannot_share_the_work_one_compiles_without_a_traceback(
    tmp_path: Path,
) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (recipe,) = (line for line in makefile.splitlines() if "compileall -qq -j 0" in line)
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >>{tmp_path}/calls\n'
        'case " $* " in *" -j "*) echo "Traceback: /dev/shm" >&2; exit 1;; esac\n'
    )
    python.chmod(0o755)
    command = recipe.strip().removeprefix("@").replace("$(1)", str(tmp_path))
    command = command.replace("$(UNUSED)", "none")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    several, one = (tmp_path / "calls").read_text().splitlines()
    assert "-j 0" in several
    assert "-j" not in one
