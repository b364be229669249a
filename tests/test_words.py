"""One word for one thing: former words, and phrases that hide what they mean, are in no file.

The glossary (docs/glossary.md) says what each word stands for, and has a table of words that are
not used, with what to write. Each row of `FORMER` has a pattern for what a word alone cannot say,
and where it is looked for. Docstrings begin with a noun or a verb.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = r"\.py$"
LADDER = r"^(ladder|arena|cli/deepsea_cli/ladder|web/deepsea_web/(server|site))/.*\.py$"
"""Where a comparison's blocks and a rotation's games could be taken for each other."""
NOT_OURS = re.compile(r"/_pb/|^tests/test_words\.py$|^docs/api/")
"""Generated files, and this one."""


class Former(NamedTuple):
    """A word that was in use."""

    pattern: str
    meant: str
    where: str = ""
    unless: str = r"(?!)"
    """A line with this is something else."""


FORMER = [
    Former(r"--jobs\b|\bjobs: int\b", "--workers"),
    Former(r"--seats[ =](rotate|fixed)", "--seating"),
    Former(r"\bPHASE_TURN\b|\bTURN\b: Final|\bKIND_OF_PHASE\b", "phase and kind `declare`"),
    Former(r'"legal": \[[^]]*"turn"|apply\("turn"\)|`turn` \(may be', "action `back`"),
    Former(r'"(down|leave)", "turn"|"turn", "(down|leave)"', "action `back`"),
    Former(r"deepsea\.v1\b|deepsea/v1/", "package deepsea.play.v1"),
    Former(r"\bovers\b|\bhauled\b|\bprotocol_version\b", "results, banked_before, features"),
    Former(r'\["from"\]|\["to"\]|"from":|"to":', "from_space, to_space", PYTHON, r'"author":'),
    Former(r"\bmean_score\b|\bplace +score\b|\bmean_place\b", "mean_points, placement, points"),
    Former(r"(game|record|end|result\(\))\.scores\b", "points", PYTHON),
    Former(r"\b[Tt]rial(s|_games)?\b", "admission; provisional", LADDER),
    Former(r"\b[Cc]rews?\b|\bCrewError\b", "workers"),
    Former(r"\bLaws?:", "Invariants:"),
    Former(r"\b[Mm]end(s|ed|ing)?\b", "fix"),
    Former(r"\b[Ww]ho only writes\b", "if you only write bots"),
    Former(r"\b(is|are|was|were|been|be) told\b", "is shown, gets"),
    Former(r"\bsaid hello\b|\bsays? hello\b", "connected"),
    Former(r"\blast words\b", "the end of its stderr"),
    Former(r"\b_go_on\b|\b_hear\b|\bheard_of\b|\b_tell\b", "an ordinary verb", PYTHON),
]


class Line(NamedTuple):
    """A line of a file in the repository."""

    path: str
    number: str
    text: str


@cache
def suspects() -> list[Line]:
    """Every line with a former word, wherever it is."""
    patterns = [word for former in FORMER for word in ("-e", former.pattern)]
    found = subprocess.run(
        ("git", "grep", "--null", "-I", "-n", "-P", *patterns),
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=True,
    ).stdout
    lines = [Line(*line.split("\0", 2)) for line in found.strip().split("\n")]
    assert any(line.path == "tests/test_words.py" for line in lines)
    return [line for line in lines if not NOT_OURS.search(line.path)]


@pytest.mark.parametrize("former", FORMER, ids=lambda former: former.pattern)
def test_a_former_word_is_gone(former: Former) -> None:
    pattern, where, unless = map(re.compile, (former.pattern, former.where, former.unless))
    found = [
        f"{path}:{number}: {text.strip()[:100]}"
        for path, number, text in suspects()
        if where.search(path) and pattern.search(text) and not unless.search(text)
    ]
    assert found == [], f"write: {former.meant}"


def test_the_glossary_is_linked() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        assert "docs/glossary.md" in (ROOT / page).read_text(encoding="utf-8")


REPLACED = re.findall(
    r"^\| `(.+?)` \| (.+?) \|$",
    (ROOT / "docs/glossary.md")
    .read_text(encoding="utf-8")
    .partition("## Words that are not used")[2],
    re.MULTILINE,
)
"""Pairs of a word that is not used, and what to write, from the glossary."""


@pytest.mark.parametrize(("word", "meant"), REPLACED)
def test_a_word_that_the_glossary_replaces_is_not_used(word: str, meant: str) -> None:
    folders = ("sdk", "referee", "ladder", "arena", "web", "cli", "docs", "README.md")
    found = subprocess.run(
        ("git", "grep", "-I", "-n", "-w", "-F", "-e", word, "--", *folders),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    found = [line[:150] for line in found if not line.startswith("docs/glossary.md:")]
    assert found == [], f"write: {meant}"


PACKAGES = ("sdk", "referee", "ladder", "arena", "web", "cli", "sample_bots")
RELATIVE = frozenset(
    [
        "And",
        "As",
        "By",
        "For",
        "From",
        "How",
        "In",
        "It",
        "Its",
        "Like",
        "Of",
        "So",
        "Than",
        "That",
        "Their",
        "These",
        "They",
        "This",
        "Those",
        "What",
        "Where",
        "Whether",
        "Which",
        "Who",
        "Whose",
        "With",
    ]
)
"""First words of docstrings that go on with something else, or have a clause for a subject."""


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings of a module, its classes, functions and fields."""
    for node in ast.walk(ast.parse(source)):
        statements = getattr(node, "body", None)
        if not isinstance(statements, list):
            continue
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        for place, statement in enumerate(statements):
            if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                continue
            of_block = place == 0 and isinstance(node, documented)
            of_field = place > 0 and isinstance(statements[place - 1], ast.Assign | ast.AnnAssign)
            if (of_block or of_field) and isinstance(statement.value.value, str):
                yield statement.lineno, statement.value.value


@pytest.mark.parametrize("folder", PACKAGES)
def test_docstrings_begin_with_a_noun_or_a_verb(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text[:80]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "_pb" not in path.parts
        for line, text in docstrings(path.read_text(encoding="utf-8"))
        if (text.split() or [""])[0] in RELATIVE
    ]
    assert found == []
