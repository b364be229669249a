"""Makes untrusted text safe to print: control and direction-changing characters are escaped.

Invariants: the result has no effect on a terminal, a log or a table, and is one line unless line
ends are kept. Printable characters are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def printable(text: str, longest: int | None = None, *, keep: str = "") -> str:
    """Return a text that is safe to show: unprintable characters are written as escapes.

    longest  most characters of the result; a longer one is cut and ends with "..."
    keep     unprintable characters that stay as they are, such as line ends
    """
    escaped = text
    if not text.isprintable():
        characters = [
            character
            if character.isprintable() or character in keep
            else character.encode("unicode_escape").decode()
            for character in text
        ]
        escaped = "".join(characters)
    if longest is None or len(escaped) <= longest:
        return escaped
    return escaped[: longest - 3] + "..."


def one_line(text: str, longest: int | None = None) -> str:
    """Return a text as `printable` does, with single spaces for line ends and other white space."""
    return printable(" ".join(text.split()), longest)


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table in HTML, as notebooks show it; every text is escaped."""
    from html import escape  # few programs need it

    def line(tag: str, cells: Sequence[object]) -> str:
        texts = [escape(printable(str(cell))) for cell in cells]
        return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"

    body = "".join(line("td", row) for row in rows)
    caption = escape(printable(caption))
    return f"<table><caption>{caption}</caption>{line('th', head)}{body}</table>"


def quoted(value: object, longest: int = 60) -> str:
    """Return a value for an error message: as in Python source, in ASCII, cut to `longest`."""
    if isinstance(value, str):
        return ascii(value if len(value) <= longest else value[:longest] + "...")
    text = ascii(value)
    return text if len(text) <= longest else text[:longest] + "..."
