"""The API reference: every public name is on its page with a docstring; pages are up to date."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools" / "gen_api.py"
API = ROOT / "docs" / "api"


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_api", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


gen_api = load_tool()


def test_the_pages_are_what_the_code_gives() -> None:
    done = subprocess.run(
        (sys.executable, TOOL, "--check"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("module", gen_api.PUBLIC)
def test_every_public_name_is_on_its_page(module: str) -> None:
    page = (API / f"{module}.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[`(\w+)`\]\(\S+\) \| (.+) \|$", page, re.M))
    assert list(rows) == importlib.import_module(module).__all__
    assert all(rows.values())
    for name in rows:
        home = re.search(rf"^\| \[`{name}`\]\((\S*)#\S+\)", page, re.M)
        assert home
        text = (API / home[1]).read_text(encoding="utf-8") if home[1] else page
        assert re.search(rf"^## {name}$", text, re.M), f"{module}.{name}"


@pytest.mark.parametrize("name", ["MIN_PLAYERS", "NOT_THERE"])
def test_a_name_without_a_docstring_is_refused(name: str) -> None:
    with pytest.raises(gen_api.Undocumented, match=name):
        gen_api.find("deepsea_rules.ruleset", name)


@pytest.mark.parametrize(
    ("doc", "markdown"),
    [
        ("One.\n\n    a()\n\n    b()\n\nTwo.", "One.\n\n```python\na()\n\nb()\n```\n\nTwo.\n"),
        (
            "Do it.\n\na    the first\n     of all\nb, c  others\nRaises X.",
            "Do it.\n\n\n- `a`: the first\n  of all\n- `b, c`: others\n\nRaises X.\n",
        ),
    ],
)
def test_docstrings_become_markdown(doc: str, markdown: str) -> None:
    assert "\n".join(gen_api.prose(doc)) == markdown
