"""Bodies as readers take them: packed or not, or not again.

Invariant: the packed and the plain form of a body have the same ETag, so that tags are weak.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from deepsea_web.site.cache import Rendered


def same(request: Request, tag: str) -> bool:
    """Whether the reader has this already."""
    given = request.headers.get("if-none-match", "")
    return tag in [one.strip() for one in given.split(",")]


def sent(request: Request, rendered: Rendered, headers: Mapping[str, str]) -> Response:
    """A body as the reader takes it: packed, or as it is."""
    packed = rendered.packed is not None and _takes_gzip(request)
    body = rendered.packed if packed and rendered.packed is not None else rendered.body
    encoding = {"Content-Encoding": "gzip"} if packed else {}
    return Response(body, headers={**headers, **encoding}, media_type=rendered.kind)


def _takes_gzip(request: Request) -> bool:
    for word in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, quality = word.partition(";")
        if name.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
