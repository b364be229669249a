"""The packages that a bot needs: read strictly, and compared with this machine and a season."""

from __future__ import annotations

from importlib import metadata

import pytest

from deepsea_bundle.archive import Collection
from deepsea_bundle.errors import BundleError
from deepsea_bundle.reader import BotBundle
from deepsea_referee.workbench.advice import (
    checked_package,
    missing_here,
    not_offered,
    parse_requirements,
    requirements,
)
from helpers.bundles import bundle_of

TEXT = """\
# what it needs
click >= 8.0   # for nothing
Some_Thing[extra]==1.2

click<2; python_version < "3"
"""


def test_comments_markers_and_spaces_are_understood() -> None:
    found = [str(one) for one in parse_requirements(TEXT)]
    assert found == ["click>=8.0", "Some_Thing[extra]==1.2"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-r other.txt", "line 2: '-r other.txt' is no package such as numpy>=2"),
        ("--index-url https://x", "is no package"),
        ("git+https://x/y.git", "is no package"),
        ("./local", "is no package"),
        ("numpy @ https://x/numpy.whl", "line 2: numpy comes from a URL; name a version"),
        ("numpy=2", "is no package"),
        ("x" * 70_000 + "?", "is no package"),
        ("numpy==" + "1" * 5000, "it is longer than 1000 characters"),
        ("click; " + "(" * 5000, "it is longer than 1000 characters"),
        ("click; python_version ~= 'x'", "is no package"),
    ],
)
def test_what_only_pip_could_follow_is_refused_with_its_line(line: str, words: str) -> None:
    with pytest.raises(BundleError) as refused:
        parse_requirements(f"click\n{line}\n")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_what_this_machine_lacks_is_named() -> None:
    needed = parse_requirements("click\nclick>=99\nno-such-package>=1\n")
    here = metadata.version("click")
    assert missing_here(needed) == [f"click>=99 (here is {here})", "no-such-package>=1"]


@pytest.mark.parametrize(
    ("needed", "offered", "lacking"),
    [
        ("", [], []),
        ("numpy", [], ["numpy"]),
        ("NumPy>=2\nscikit_learn", ["numpy==2.1.0", "scikit-learn"], []),
        ("numpy>=2.2\ntorch", ["numpy==2.1.0", "torch"], ["numpy>=2.2"]),
        ("deepsea-sdk\ngrpcio>=1.80\nprotobuf", [], []),
        ("b\na", ["c"], ["b", "a"]),
    ],
)
def test_a_season_offers_what_it_names(needed: str, offered: list[str], lacking: list[str]) -> None:
    assert not_offered(parse_requirements(needed), offered) == lacking


def test_a_seasons_package_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(BundleError, match="write a name, or a name and version"):
        checked_package("numpy==" + "1" * 5000)


def test_a_seasons_package_is_a_name_or_a_name_and_a_version() -> None:
    checked = [*map(checked_package, ("NumPy", " numpy == 2.1.0", "scikit_learn"))]
    assert checked == ["numpy", "numpy==2.1.0", "scikit-learn"]
    for bad in ("", "numpy>=2", "numpy==2.*", "numpy[x]", "a b", "numpy==1,==2", "x @ https://x"):
        with pytest.raises(BundleError, match="write a name, or a name and version"):
            checked_package(bad)


def test_a_manifest_names_the_file() -> None:
    files = {"bot.py": b"", "needs/all.txt": TEXT.encode()}
    manifest = b'command = "python bot.py"\nrequirements = "needs/all.txt"\n'
    assert bundle_of({**files, "bot.toml": manifest}, default="x").requirements == TEXT
    for value, words in (
        (b"3", "requirements is a file's name, not a number"),
        (b'"none.txt"', "requirements is 'none.txt', but there is no such file among the bot's"),
        (b'"../all.txt"', "there is no such file"),
    ):
        manifest = b'command = "python bot.py"\nrequirements = ' + value
        with pytest.raises(BundleError, match=words):
            bundle_of({**files, "bot.toml": manifest}, default="x")
    for content, words in ((b"\xff", "is not UTF-8"), (b"#" * 70_000, "more than 65,536")):
        manifest = b'command = "python bot.py"\nrequirements = "r.txt"\n'
        with pytest.raises(BundleError, match=words):
            bundle_of({**files, "r.txt": content, "bot.toml": manifest}, default="x")


def test_check_says_which_of_them_are_here() -> None:
    def check(text: str | None) -> list[tuple[bool, bool, str]]:
        bundle = BotBundle("x", ("./x",), "", Collection(), requirements=text)
        return [(one.ok, one.needed, one.found) for one in requirements(bundle)]

    click = f"click {metadata.version('click')}"
    assert check(None) == []
    assert check("click>=8") == [(True, False, f"{click} installed")]
    assert check("click\nno-such-package") == [
        (False, False, f"no-such-package required but not installed here; {click} installed")
    ]
