"""The docs are true: their commands run, their bots play, their tables and positions are right.

A page's code blocks are taken in order. `python` and `toml` blocks whose first line is a comment
with a file name become that file; `sh` blocks are run line by line beside those files.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import pkgutil
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from google.protobuf import text_format

from deepsea_cli import main
from deepsea_ladder import chain, season
from deepsea_ladder.export import export_lines
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.season import SeasonSettings
from deepsea_referee.summary import VoidGame
from deepsea_rules import randomness
from deepsea_rules.faults import FATAL, REMEDIES, Fault, FaultReport
from deepsea_rules.game import Game
from deepsea_rules.notation import format_position, parse_position, parse_roll, read_position
from deepsea_rules.ruleset import OPTIONS, PRESETS, OptionValue
from deepsea_rules.state import GameState
from deepsea_sdk._pb import play_pb2
from deepsea_sdk.wire.games import start_from_wire
from helpers import ladder
from helpers.commands import Run

ROOT = Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "sdk/README.md"]
PAGES += [str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))]
RUN_PAGES = [
    *("README.md", "docs/rules.md", "docs/protocol.md", "docs/records.md", "docs/search.md"),
    "docs/learn.md",
]
RUN_PAGES += ["docs/scripts.md", "sdk/README.md"]
SLOW_PAGES = ["docs/workbench.md"]
SHORTER = {
    "--games": ["--games", "2"],
    "--seed": ["--in-process"],
    "analyse": ["--rollouts", "8"],
    "improve": ["--minutes", "0.02"],
}
"""What is added to a command with such a word, so that it runs but not for long."""
ENTER = ". .venv-match/bin/activate"
"""Enters the environment that `make match` makes."""
REPEATED = {
    "README.md": [
        "deepsea-referee ladder submit greedy --author you",
        "deepsea-referee ladder submit cautious --author me",
        "deepsea-referee ladder run --games 20",
    ],
    "docs/workbench.md": ["deepsea-referee check mine"],
}
"""What takes seconds, by page: README.md's are run by tests/cli/test_ladder_run.py in other words,
others for README.md."""


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    text: str
    file: str | None
    """The name in its first line's comment, if there is one."""


@cache
def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, *languages: str) -> Iterator[Block]:
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", read(page), re.M | re.S):
        if language in languages:
            name = re.match(r"# ([\w./-]+\.\w+)\n", text)
            yield Block(language, text, name[1] if name else None)


def section(page: str, title: str) -> str:
    """The text under a heading, up to the next one of the same depth."""
    match = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^\1 |\Z)", read(page), re.M | re.S)
    assert match, f"{page} has no section {title!r}"
    return match[2]


def table(text: str) -> list[list[str]]:
    """The rows of the first table in a text, without the line below the head."""
    first = re.search(r"(?:^\|.*\|\n)+", text, re.M)
    assert first
    rows = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in first[0].splitlines()]
    return [[cell.strip(" |") for cell in row] for row in rows if not set(row[0]) <= set("|-")]


# Commands


def make_recipe(target: str) -> list[list[str]]:
    """The commands that a make target runs once its environment stands."""
    done = subprocess.run(
        ("make", "--dry-run", "--always-make", target, "PYTHON=python3"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.replace("\\\n", "").splitlines()
    return [shlex.split(line) for line in lines if line.startswith(".venv-")]


def run_here(words: list[str]) -> None:
    """Run our command line in this process, which takes a fraction of the time; it must succeed."""
    said = io.StringIO()
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        pytest.raises(SystemExit) as ended,
    ):
        main(words)
    assert ended.value.code == 0, f"{words}\n{said.getvalue()}"


def run_apart(words: list[str], cwd: Path) -> None:
    """Run a command of the docs with this interpreter; it must succeed."""
    if words[0] == "deepsea-referee":
        words = [sys.executable, "-m", "deepsea_cli", *words[1:]]
    elif words[0] in ("python", "python3"):
        words = [sys.executable, *words[1:]]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"


def run_in_docs(page: str, line: str, cwd: Path, shorter: bool) -> None:
    """Run one line of a `sh` block, or what stands for it here."""
    if line == ENTER or (shorter and line in REPEATED.get(page, ())):
        assert f"\n{line}\n" in read("README.md")
        return
    words = shlex.split(line, comments=True)
    if shorter:
        words += [more for word in words for more in SHORTER.get(word, ())]
    match words:
        case ["make", target]:
            recipe = make_recipe(target)[-1]
            program = Path(recipe[0]).name
            if program == "deepsea-referee":
                command = shlex.join([program, *recipe[1:]])
                # A page that has this command too runs it once.
                if not shorter or f"\n{command}\n" not in read(page):
                    run_in_docs(page, command, cwd, shorter)
            else:
                # The tests cannot run themselves: that they are found has to do.
                assert recipe[1:3] == ["-m", "pytest"]
                if not shorter:
                    some = ROOT / "tests/test_packaging.py"
                    run_apart(
                        [sys.executable, "-m", "pytest", "--collect-only", "-q", str(some)], ROOT
                    )
        case ["pip", "install", *what]:
            for each in what:
                check_installable(each)
        case ["python3", "-m", "venv", _] | [".", _]:
            pass  # the environment that the tests run in stands for it
        case ["deepsea-referee", *rest] if shorter:
            run_here(rest)
        # Spawned processes import the program anew: it has to be one.
        case ["python", program] if shorter and "spawn" not in (cwd / program).read_text():
            runpy.run_path(program, run_name="__main__")
        case _:
            run_apart(words, cwd)


def check_installable(what: str) -> None:
    if what == "deepsea-sdk":
        return
    match = re.fullmatch(r"\./?(sdk)?(?:\[(\w+)\])?", what)
    assert match, what
    project = tomllib.loads(read(f"{match[1] or '.'}/pyproject.toml"))["project"]
    assert match[2] is None or match[2] in project["optional-dependencies"]


# The very words of the pages run before a release, each in a process of its own; they play longer.
@pytest.mark.parametrize("shorter", [True, pytest.param(False, marks=pytest.mark.release)])
@pytest.mark.parametrize(
    "page", RUN_PAGES + [pytest.param(page, marks=pytest.mark.slow) for page in SLOW_PAGES]
)
def test_commands_and_snippets_run(
    page: str, shorter: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # snippets write files
    monkeypatch.setenv("DEEPSEA_LADDER", str(tmp_path / "ladder.db"))
    # The repository's folders that commands name lie where a reader has them: beside the files.
    for folder in ("proto",):
        (tmp_path / folder).symlink_to(ROOT / folder)
    for block in blocks(page, "python", "toml", "sh"):
        if block.file:
            file = tmp_path / block.file
            file.parent.mkdir(exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            for line in block.text.replace("\\\n", " ").splitlines():
                if line.strip() and not line.startswith("#"):
                    run_in_docs(page, line, tmp_path, shorter)
        elif block.language == "python":
            exec(compile(block.text, page, "exec"), {"__name__": "__main__"})


@pytest.mark.slow
def test_the_session_that_makes_a_bot_stronger_is_a_real_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """README's, whose lines docs/workbench.md has, too, with time enough on any machine."""
    monkeypatch.chdir(tmp_path)
    shown = section("README.md", "Is it better?")
    weak, strong = re.findall(r"^```text\n(.*?)^```$", shown, re.M | re.S)
    (change,) = re.findall(r"^```diff\n(.*?)^```$", shown, re.M | re.S)
    before, after = (
        "".join(line[1:] for line in change.splitlines(keepends=True) if line[0] == sign)
        for sign in "-+"
    )
    run("new", "mine")
    program = Path("mine/bot.py")
    for seed, text in (("one", weak), ("two", strong)):
        words = f"improve mine --in-process --seed {seed}"
        assert f"deepsea-referee {words}" in shown
        assert text in run(*words.split(), "--minutes", "30").out
        assert all(line in read("docs/workbench.md") for line in text.splitlines())
        code = program.read_text(encoding="utf-8")
        assert seed == "two" or before in code
        program.write_text(code.replace(before, after), encoding="utf-8")


KERNEL = """
import ast, asyncio, io, sys

class OutStream(io.TextIOBase):
    def write(self, text):
        return terminal.write(text)

async def run(cell, names):
    *lines, last = cell.splitlines()
    exec(compile("\\n".join(lines), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    print(eval(last, names), eval(last, names)._repr_html_(), sep="\\n")

terminal, sys.stdout, sys.stderr = sys.stdout, OutStream(), OutStream()
asyncio.run(run(sys.argv[1], {}))
# At the exit Python writes what a stream still holds only while that is sys.stdout.
terminal.flush()
"""
"""Runs a cell as ipykernel does: compiled for a top-level `await`, in the thread of its event loop,
and with streams that have neither a descriptor nor `buffer`."""


def notebook_cell() -> str:
    (cell,) = [block for block in blocks("docs/scripts.md", "python") if not block.file]
    return cell.text


def test_the_cell_of_a_notebook_runs_and_shows_a_table() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KERNEL, notebook_cell()], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("<MatchResult, 4 of 4 games, manual rules: "), done.stderr
    assert "<td>greedy</td><td>4</td>" in done.stdout
    assert done.stderr == ""


@pytest.mark.release  # not every machine has Jupyter
def test_the_notebook_runs_in_a_kernel_of_jupyter() -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    new = pytest.importorskip("nbformat", reason="nbformat is not installed").v4
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    processes = 'run_match(["greedy", "random"], isolation="process")'
    cells = [new.new_code_cell(text) for text in (notebook_cell(), processes)]
    notebook = new.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    for cell in notebook.cells:
        (output,) = cell.outputs
        assert output.data["text/plain"].startswith("<MatchResult, ")
        assert output.data["text/html"].startswith("<table>")


@pytest.mark.parametrize("target", ["match", "test"])
def test_the_readme_sets_up_everything_with_make(target: str) -> None:
    commands = [block.text for block in blocks("README.md", "sh")]
    assert any(f"make {target}\n" in text for text in commands)
    assert f"make match\n{ENTER}\n" in commands
    assert make_recipe("match")[-1][0].startswith(ENTER.split()[1].removesuffix("activate"))


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make_that_are_named_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
    assert set(re.findall(r"`make ([a-z-]+)", read(page))) <= targets


NAMED_IN_A_FILE = re.compile(r"\]\(([^)#\s]+\.py)\)[,:]? \(?((?:(?: and )?`\w+`)+)")
"""A link to a module with names of its functions behind it."""


@pytest.mark.parametrize("page", PAGES)
def test_functions_that_stand_behind_a_link_to_their_module_are_in_it(page: str) -> None:
    for path, words in NAMED_IN_A_FILE.findall(read(page)):
        code = (ROOT / page).parent.joinpath(path).read_text(encoding="utf-8")
        for name in re.findall(r"\w+(?=`)", words):
            assert re.search(rf"\b{name}\b", code), f"{page}: {name} is not in {path}"


def test_hooks_before_a_commit_are_what_make_check_runs() -> None:
    entries = re.findall(r"^ +entry: (.+)$", read(".pre-commit-config.yaml"), re.M)
    recipe = [words for words in make_recipe("check") if not {"pip", "compileall"} & {*words}]
    assert [shlex.split(entry) for entry in entries] == recipe


# Links


@cache
def anchors(page: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", read(page), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page: str) -> None:
    prose = re.sub(r"^```.*?^```$", "", read(page), flags=re.M | re.S)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(str(target))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_modules_and_folders_that_are_named_exist(page: str) -> None:
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir())
    prose = re.sub(r"^```.*?^```$", "", read(page), flags=re.M | re.S)
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", prose)
    # Without a mark, too; one of another commit has a colon before it.
    named += re.findall(rf"(?<![\w./:-])((?:{folders})/[\w/-]+\.py)\b", read(page))
    assert [path for path in named if not (ROOT / path).exists()] == []
    own = {"my_bot.py", *(block.file for block in blocks(page, "python"))}
    modules = set(re.findall(r"`(\w+\.py)`", prose)) - own
    assert [name for name in modules if not any(ROOT.glob(f"[a-z]*/**/{name}"))] == []


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_are_named_exist(page: str) -> None:
    named = set(re.findall(r"(?<![\w./])(test_\w+)(?![\w.])", read(page)))
    assert named - names_of_tests().keys() == set()
    in_files = r"((?:`test_\w+`(?:, | and )?)+)(?: and others)? in `(tests/[\w/]+\.py)`"
    for names, file in re.findall(in_files, read(page)):
        for name in re.findall(r"\w+", names.replace(" and ", " ")):
            assert file in names_of_tests()[name], f"{page}: {name} is not in {file}"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md"])
def test_modules_with_dots_that_are_named_exist(page: str) -> None:
    named = set(re.findall(r"`((?:deepsea_\w+|helpers)(?:\.\w+)+)`", read(page)))
    assert {name for name in named if not is_importable(name)} == set()


def is_importable(name: str) -> bool:
    """True of a module or what one has, and where another package is missing that it imports."""
    try:
        pkgutil.resolve_name(name)
    except ModuleNotFoundError as error:
        return (error.name or "").partition(".")[0] != name.partition(".")[0]
    except AttributeError:
        return False
    return True


@cache
def names_of_tests() -> dict[str, set[str]]:
    """The files that have a test of each name."""
    files: dict[str, set[str]] = {}
    for file in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8")):
            files.setdefault(name, set()).add(file.relative_to(ROOT).as_posix())
    return files


def test_every_numbered_attack_is_in_the_lists_of_attacks() -> None:
    named = set(re.findall(r"`(test_\w+)`", read("docs/dev/attacks.md")))
    attacks = {
        name
        for name, files in names_of_tests().items()
        if re.match(r"test_[spt]\d\d_", name)
        and any(file.startswith("tests/attacks/") for file in files)
    }
    assert attacks - named == set()


# Faults and settings


FAULTS_IN_DOCS = {
    "docs/protocol.md": lambda fault: f"| `{fault.name}` | ",
    "docs/records.md": lambda fault: f"`{fault}`",
    "docs/results.md": lambda fault: f"`{fault}`",
    "proto/deepsea/play/v1/play.proto": lambda fault: f"  FAULT_{fault.name} = ",
}
"""The documents that name every kind of fault, and how."""


@pytest.mark.parametrize("page", FAULTS_IN_DOCS)
@pytest.mark.parametrize("fault", Fault)
def test_every_fault_is_in_each_document_on_faults(fault: Fault, page: str) -> None:
    assert FAULTS_IN_DOCS[page](fault) in read(page), f"{page} does not name the fault {fault}"


@pytest.mark.parametrize("fault", Fault)
def test_the_docs_say_which_faults_forfeit_at_once(fault: Fault) -> None:
    row = re.search(rf"^\| `{fault.name}` \|.*\| (.*) \|$", read("docs/protocol.md"), re.M)
    assert row is not None, f"docs/protocol.md has no row of the fault {fault}"
    assert ("the seat is forfeited" in row[1]) == (fault in FATAL), f"docs/protocol.md: {fault}"
    at_once = re.search(
        r"A \*fault\* is one of [^.]*\. ([^;]*?) forfeit the seat at once", read("docs/records.md")
    )
    assert at_once is not None
    assert (f"`{fault}`" in at_once[1]) == (fault in FATAL), f"docs/records.md: {fault}"


@pytest.mark.parametrize("fault", Fault)
def test_every_fault_has_a_remedy(fault: Fault) -> None:
    assert REMEDIES.get(fault), f"faults.py: REMEDIES has no {fault}"


def test_the_table_of_a_ladders_settings_is_that_of_the_code() -> None:
    _, *rows = table(section("docs/ladder.md", "settings"))
    settings = USUAL_LIMITS.table()
    for one, row in zip(settings, rows, strict=True):
        assert row == [f"`{one.name}`", f"{one.value:,} {one.unit}", one.about], one.name


@pytest.mark.parametrize("part", ["rating", "pairing"])
def test_the_table_of_parameters_is_that_of_a_season(part: str) -> None:
    rows = table(section("docs/rating.md", "Parameters"))
    settings = msgspec.to_builtins(getattr(SeasonSettings("any"), part))
    assert [row[:2] for row in rows if row[0].startswith(f"`{part}.")] == [
        [f"`{part}.{name}`", written_in_toml(value)] for name, value in settings.items()
    ]


def written_in_toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_module_of_a_season_names_every_setting() -> None:
    for name, value in msgspec.to_builtins(SeasonSettings("any")).items():
        for word in (name, *(value if isinstance(value, dict) and name != "rules" else ())):
            assert re.search(rf"\b{word}\b", season.__doc__ or ""), f"season.py: {word}"


# Rules


def written(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else str(value)


def test_the_table_of_options_is_that_of_the_presets() -> None:
    head, *rows = table(section("docs/rules.md", "Options"))
    assert head == ["option", "values", *PRESETS]
    assert [row[0].strip("`") for row in rows] == [option.name for option in OPTIONS]
    for option, row in zip(OPTIONS, rows, strict=True):
        assert row[2:] == [written(getattr(rules, option.name)) for rules in PRESETS.values()]
        if option.name != "blank_count":
            assert row[1].split(", ") == [written(value) for value in option.values]


def test_every_option_has_the_passages_of_the_texts_that_it_comes_from() -> None:
    head, *rows = table(section("docs/rules.md", "Where the texts say so"))
    assert head == ["option", "passage, and how it is read"]
    assert [row[0].strip("`") for row in rows] == [option.name for option in OPTIONS]


@pytest.mark.parametrize("page", ["README.md", "docs/rules.md"])
def test_every_preset_is_named(page: str) -> None:
    for name in PRESETS:
        assert f"`{name}`" in read(page)


def play(position: str, steps: str, preset: str) -> str:
    state: GameState = parse_position(position, PRESETS[preset])
    for step in steps.split():
        if step.startswith("r"):
            state.roll(*parse_roll(step))
        else:
            state.apply(step)
    return format_position(state)


def test_the_example_of_the_notation_is_a_position() -> None:
    (example,) = re.findall(r"^TRAIL \| .*\n(.+)", section("docs/rules.md", "Notation"), re.M)
    assert format_position(*read_position(example, PRESETS["manual"])) == example


def worked_positions() -> Iterator[tuple[str, str, str, str]]:
    """Position, steps, what comes of them, and the preset, of each worked position."""
    text = section("docs/rules.md", "Worked positions")
    for example in re.findall(r"^# .*\n  (.+)\n> (.+)\n((?:= .+\n)+)", text, re.M):
        position, steps, results = example
        for line in results.splitlines():
            result, _, presets = line.removeprefix("= ").partition("   ")
            for preset in presets.replace(",", " ").split() or PRESETS:
                yield position, steps, result.strip(), preset


@pytest.mark.parametrize(("position", "steps", "result", "preset"), list(worked_positions()))
def test_worked_positions(position: str, steps: str, result: str, preset: str) -> None:
    assert play(position, steps, preset) == result


def test_worked_positions_name_every_preset_once() -> None:
    seen = [(position, steps, preset) for position, steps, _, preset in worked_positions()]
    examples = {(position, steps) for position, steps, _ in seen}
    assert len(seen) == len(set(seen)) == len(PRESETS) * len(examples)


# Records and the wire


def test_the_page_on_chance_derives_the_same_chance() -> None:
    (snippet,) = (block.text for block in blocks("docs/records.md", "python") if not block.file)
    names: dict[str, object] = {}
    exec(compile(snippet, "records.md", "exec"), names)
    deal, dice = names["deal"], names["dice"]
    assert callable(deal)
    assert callable(dice)
    for text in ("demo", "another"):
        seed = randomness.game_seed(randomness.seed_from_text(text), 3)
        assert tuple(deal(seed)) == randomness.deal(seed)[1:]
        assert dice(seed, 2, 5, 7) == randomness.source(seed).dice(2, 5, 7)


def test_the_worked_example_of_the_chain_is_right() -> None:
    page = section("docs/records.md", "The chain of a season")
    (line,) = re.findall(r"^\{.*\}$", page, re.M)
    commitment, told, head = re.findall(r"^([0-9a-f]{64})$", page, re.M)
    assert chain.canonical(json.loads(line)) == line.encode()
    assert commitment == randomness.commitment(randomness.seed_from_text("demo"))
    assert told == hashlib.sha256(line.encode()).hexdigest()
    assert head == chain.next_head(commitment, json.loads(line))


def test_the_keys_of_an_export_are_those_of_the_page(export: Path) -> None:
    page = section("docs/records.md", "The chain of a season")
    keys = {key for row in table(page)[1:] for key in re.findall(r"`(\w+)`", row[0])}
    opening, *lines = map(json.loads, export.read_text(encoding="utf-8").splitlines())
    assert {key for line in lines for key in line} == keys
    for key in opening:
        assert f"`{key}`" in page


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of a season with two games and a void attempt."""
    folder = tmp_path_factory.mktemp("export")
    with ladder.created(folder / "ladder.db") as store:
        season = ladder.stocked(store)
        store.jobs.add(season, ladder.rotations(ladder.ids(store), 2))
        store.jobs.fail(ladder.claim(store, season), "the host was busy: ü", 1)
        ladder.play_all(store, season)
        path = folder / "export.jsonl"
        path.write_text("".join(export_lines(store, season)), encoding="utf-8")
    return path


def test_the_verifier_of_the_page_follows_a_real_export(export: Path, tmp_path: Path) -> None:
    (verifier,) = (block for block in blocks("docs/records.md", "python") if block.file)
    program = tmp_path / "follow_chain.py"
    program.write_text(verifier.text, encoding="utf-8")

    def status(commitment: str, head: str) -> int:
        words = [sys.executable, "-I", str(program), str(export), commitment, head]
        return subprocess.run(words, check=False).returncode

    export = Path(shutil.copy(export, tmp_path))
    lines = export.read_text(encoding="utf-8").splitlines(keepends=True)
    first, *_, last = (json.loads(line)["head"] for line in lines)
    assert status(first, last) == status(first, first) == 0
    assert status(first, "00" * 32) == 1
    export.write_text("".join(line.replace("busy", "idle") for line in lines), encoding="utf-8")
    assert (status(first, last), status(first, first)) == (1, 0)
    export.write_text("".join(lines[:1] + lines[2:]), encoding="utf-8")
    assert status(first, last) == 1


def test_the_page_on_results_names_what_is_there(tmp_path: Path) -> None:
    run_here(["match", "random", "random", "--out", str(tmp_path / "out")])
    results = json.loads((tmp_path / "out/results.json").read_text(encoding="utf-8"))
    page = read("docs/results.md")
    keys = results.keys() | results["bots"][0].keys() | results["games"][0].keys()
    keys |= set(FaultReport.__slots__) | set(VoidGame.__slots__)
    assert {key for key in keys if f"`{key}`" not in page} == set()


def test_the_record_shown_is_json() -> None:
    (shown,) = (block.text for block in blocks("docs/records.md", "json"))
    assert json.loads(shown)["format"] == "deepsea-record/1"


def test_the_worked_exchange_is_made_of_real_messages() -> None:
    exchange = section("docs/protocol.md", "A worked exchange")
    shown = re.findall(r"^# (PlayRequest|PlayResponse): .*\n((?:[^`\n].*\n)+)", exchange, re.M)
    messages = [text_format.Parse(text, getattr(play_pb2, kind)()) for kind, text in shown]
    assert len(messages) == len(re.findall("^# Play", exchange, re.M))
    game = Game(PRESETS["manual"], 2, randomness.game_seed(randomness.seed_from_text("demo"), 0))
    (start,) = [start for message in messages for start in getattr(message, "starts", ())]
    assert start_from_wire(start).rules == game.rules
    assert start.commitment == game.commitment
    (over,) = [over for message in messages for over in getattr(message, "results", ())]
    assert over.seed == game.seed
    assert tuple(over.values) == game.state.values[1:]
