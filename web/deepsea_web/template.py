"""Templates of pages and pictures.

Invariants: every value is escaped unless the template says `safe`; a name that is not given is an
error.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(name: str, **values: object) -> Iterator[str]:
    """A template with these values, in pieces."""
    return _environment().get_template(name).generate(**values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("deepsea_web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
