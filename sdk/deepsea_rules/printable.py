"""Makes untrusted text safe to print: control and direction-changing characters are escaped.

Invariants: the result has no effect on a terminal, a log or a table, and is one line unless line
ends are kept; printable characters are unchanged.
"""

from __future__ import annotations


def printable(text: str, longest: int | None = None, *, keep: str = "") -> str:
    """The text with unprintable characters as escapes, cut to `longest` characters.

    keep   characters that stay, such as line ends
    """
    escaped = text
    if not text.isprintable():
        escaped = "".join(
            [
                c if c.isprintable() or c in keep else c.encode("unicode_escape").decode()
                for c in text
            ]
        )
    return escaped if longest is None or len(escaped) <= longest else escaped[: longest - 3] + "..."


def one_line(text: str, longest: int | None = None) -> str:
    """The same, with single spaces for line ends and other white space."""
    return printable(" ".join(text.split()), longest)


def quoted(value: object, longest: int = 60) -> str:
    """A value as error messages show it: as in Python source, in ASCII, cut to about `longest`."""
    if isinstance(value, str):
        return ascii(value if len(value) <= longest else value[:longest] + "...")
    text = ascii(value)
    return text if len(text) <= longest else text[:longest] + "..."
