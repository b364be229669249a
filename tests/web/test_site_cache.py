"""Rendered pages are kept while there is room."""

from __future__ import annotations

from deepsea_web.site.rendering import Cache, Rendered


def test_what_was_used_longest_ago_goes_when_there_is_no_room() -> None:
    pages = {name: Rendered.of(name * 40, "text/plain") for name in "abc"}
    cache = Cache(most_bytes=100)
    for name in "ab":
        cache.put(name, pages[name])
    assert cache.get("a") is pages["a"]
    cache.put("c", pages["c"])
    assert [cache.get(name) for name in "abc"] == [pages["a"], None, pages["c"]]


def test_what_is_larger_than_all_room_is_not_kept_and_drives_nothing_out() -> None:
    small, large = Rendered.of("x", "text/plain"), Rendered.of("x" * 101, "text/plain")
    cache = Cache(most_bytes=100)
    cache.put("small", small)
    cache.put("large", large)
    assert (cache.get("small"), cache.get("large")) == (small, None)
