"""What of an error's text its author has to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepsea_referee.bots.author_error import author_error, frames, last_words


def traceback(*places: str) -> str:
    lines = ["noise before", "Traceback (most recent call last):"]
    for place in places:
        lines += [f"  File {place}", "    some code", "    ~~~~^^^^"]
    return "\n".join([*lines, "KeyError: 'x'", ""])


def test_own_frames_are_kept_in_pythons_form_and_others_left_out(tmp_path: Path) -> None:
    text = traceback(
        f'"{tmp_path}/boom.py", line 7, in search',
        '"/usr/lib/python3/random.py", line 300, in choice',
        f'"{tmp_path}/lib/deep.py", line 3, in best',
        f'"{tmp_path}/.venv/lib/site-packages/numpy.py", line 1, in dot',
        '"<frozen importlib>", line 9, in load',
    )
    assert author_error(text, tmp_path).splitlines() == [
        "Traceback (most recent call last):",
        '  File "boom.py", line 7, in search',
        "    some code",
        "    ~~~~^^^^",
        '  File "lib/deep.py", line 3, in best',
        "    some code",
        "    ~~~~^^^^",
        "KeyError: 'x'",
    ]


def test_where_no_frame_is_the_authors_all_are_kept(tmp_path: Path) -> None:
    text = traceback('"/usr/lib/python3/runpy.py", line 3, in run')
    assert '"/usr/lib/python3/runpy.py", line 3' in author_error(text, tmp_path)


def test_a_syntax_error_keeps_its_line(tmp_path: Path) -> None:
    below = ["    def (", "        ^", "SyntaxError: invalid syntax"]
    text = "\n".join([f'  File "{tmp_path}/bot.py", line 3', *below])
    assert author_error(text, tmp_path).splitlines() == ['  File "bot.py", line 3', *below]


def test_only_the_last_traceback_counts(tmp_path: Path) -> None:
    first = traceback(f'"{tmp_path}/a.py", line 1, in f')
    second = traceback(f'"{tmp_path}/b.py", line 2, in g')
    assert frames(author_error(first + second, tmp_path)) == ('  File "b.py", line 2, in g',)


def test_of_other_languages_the_last_20_lines_are_kept() -> None:
    node = [*map(str, range(30)), "TypeError: x is not a function", "", "Node.js v20.20.2"]
    kept = author_error("\n".join(node), None).splitlines()
    assert len(kept) == 20
    assert kept[-1] == "Node.js v20.20.2"
    assert last_words("\n".join(kept)) == "TypeError: x is not a function"


@pytest.mark.parametrize(
    ("text", "words"),
    [("", ""), ("  \n\n", ""), ("a\nno idea\n", "no idea"), ("os.MyError: 3", "os.MyError: 3")],
)
def test_the_line_that_names_the_error(text: str, words: str) -> None:
    assert last_words(text) == words


def test_nothing_writes_to_the_terminal() -> None:
    text = author_error("\x1b[31mred\nTraceback (most recent call last):\nEvil\u202e: \x07\n", None)
    assert all(line.isprintable() for line in text.splitlines())
    assert len(author_error("x" * 100_000, None)) <= 200
