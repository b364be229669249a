"""The site of closed seasons as files, for any web server: the pages that visitors see, their
records and their chains.

Invariants: what is written is what a visitor may read, made by the page's own functions; a link
leads to a file that is written, or there is none; nothing is loaded from elsewhere; the folder gets
its name when everything is in it and the chains were followed.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from msgspec import Struct

from deepsea_arena.api.callers import READER
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import LadderService
from deepsea_arena.refold import Progress, no_progress
from deepsea_arena.reports.analysis_frames import analysed_frames
from deepsea_arena.reports.games import GameReport, read_record
from deepsea_bundle.atomic import put_in_place
from deepsea_ladder.chain import follow
from deepsea_ladder.errors import SeasonError, StoreDamaged
from deepsea_ladder.export import CHAIN, ended, export_lines, open_export
from deepsea_ladder.store import Store
from deepsea_referee.errors import UserError
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.http import CSP
from deepsea_web.server.access import Access
from deepsea_web.site.page import Page, Query
from deepsea_web.site.pages import about, games, standings
from deepsea_web.site.rendering import PageRenderer, static_files
from deepsea_web.viewer.game_page import fold

_KEPT = {"season", "version", "bot", "before", "start"}
"""The parameters whose pages are written: lists that lead to others, and nothing that is sought."""
_HEAD = '<meta charset="utf-8">'
_POLICY = CSP.replace("frame-ancestors 'none'; ", "")
"""Without what only a header can say."""
_LINK = re.compile(r'<a\b([^>]*?)href="(/[^"]*)"([^>]*)>(.*?)</a>', re.DOTALL)
_LOADED = re.compile(r'(href|src)="/static/([^"]*)"')
_FORM = re.compile(r"<form\b.*?</form>\n?", re.DOTALL)


class PublishedSite(Struct, frozen=True, kw_only=True):
    """A site that was written as files."""

    folder: str
    heads: dict[str, str]
    """The last head of each season's chain."""
    game_pages: int
    """How many games have a page; all have their records in the chain."""
    files: int
    bytes: int


@dataclass
class _Files:
    """The pages that links lead to, by the names of their files."""

    pages: Sequence[Page[Any]]
    seasons: Sequence[str]
    most: int
    wanted: list[tuple[str, Page[Any], Query]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    games: int = 0

    def of(self, address: str) -> str | None:
        """The file of a page, which is written then; None if there is none."""
        path, _, query = address.partition("?")
        for page in self.pages:
            form = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", page.path)
            if match := re.fullmatch(form, path):  # which keeps what it has compiled
                break
        else:
            return None
        default = ("season", self.seasons[0])
        given = dict([default, *parse_qsl(query)])
        kept = {one: given[one] for one in sorted(given.keys() & {*page.parameters})}
        if given["season"] not in self.seasons or not kept.keys() <= _KEPT:
            return None
        words = ["=".join(one) for one in kept.items() if one != default]
        name = f"{','.join([path.strip('/') or 'index', *words])}.html"
        if name not in self.names:
            is_game = page.path == games.GAME.path
            if self.games == self.most and (is_game or "before" in kept):
                return None
            self.games += is_game
            self.names.add(name)
            self.wanted.append((name, page, Query(match.groupdict(), kept)))
        return quote(name) + (f"?{query}" if page.path == games.GAME.path and query else "")

    def linked(self, text: str, root: str) -> str:
        """A page's text whose links lead to files; `root` is the way to their folder."""

        def link(found: re.Match[str]) -> str:
            before, address, after, words = found.groups()
            path, mark, part = html.unescape(address).partition("#")
            if (file := self.of(path)) is None:
                return "" if "rel=" in after else words
            return f'<a{before}href="{root}{html.escape(file)}{mark}{part}"{after}>{words}</a>'

        def asset(found: re.Match[str]) -> str:
            self.loaded.add(found[2])
            return f'{found[1]}="{root}static/{found[2]}"'

        return _LOADED.sub(asset, _LINK.sub(link, _FORM.sub("", text)))


def publish(
    store: Store,
    public: Store,
    seasons: Sequence[str],
    folder: Path,
    *,
    most: int,
    progress: Progress = no_progress,
) -> PublishedSite:
    """Write the site of ended seasons to a new or empty folder, the first one's standings first.

    public    the same ladder as visitors see it
    most      games that get a page of their own
    progress  called with their number, for what is called with how many more were written
    """
    stored = [ended(store, name) for name in dict.fromkeys(seasons)]
    for hidden in store.seasons.embargoed():
        if hidden.name in seasons:
            raise SeasonError(f"season {hidden.name} is under embargo: publish it when that ends")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already: name a folder that is new or empty")
    ladder = LocalLadder(LadderService(store, public, entropy=fresh_seed), READER)
    heads = {season.name: season.head for season in stored}
    total = min(most, sum(map(store.history.count, stored)))

    def extras(data: GameReport) -> Mapping[str, Any]:
        return _game_extras(ladder, data)

    pages = _Files(
        (
            *(standings.STANDINGS, standings.BOT, games.GAMES, standings.PAIRS),
            *(about.HOW, standings.TOURNAMENT, replace(games.GAME, extras=extras)),
        ),
        [*heads],
        most,
    )
    links = [(page.nav, page.path) for page in pages.pages if page.nav]
    links += [(one.name, f"/tournaments/{one.name}") for one in stored if one.tournament]
    renderer = PageRenderer(Access(""), links, published=True)
    with (
        tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.absolute().parent) as at,
        progress(total) as on_games,
    ):
        chain, scratch = Path(at, CHAIN), Path(at, "site")
        with gzip.open(chain, "wt", encoding="utf-8", newline="\n") as file:
            for season in stored:
                file.writelines(export_lines(public, season))
        with open_export(chain) as lines:
            if {link.season: link.head for link in follow(lines)} != heads:
                raise StoreDamaged(f"a chain of {', '.join(heads)} ends before its head")
        for name in ("bots", "games", "tournaments", "static"):
            (scratch / name).mkdir(parents=True, exist_ok=True)
        put_in_place(chain, scratch / CHAIN)
        pages.of("/")
        for name, page, query in pages.wanted:
            text = renderer.page(page, query, page.read(ladder, query))
            policy = f'{_HEAD}\n<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            text = pages.linked(text, "../" * name.count("/")).replace(_HEAD, policy, 1)
            (scratch / name).write_bytes(text.encode(errors="replace"))
            on_games(page.path == games.GAME.path)
        for name in pages.loaded:
            (scratch / "static" / name).write_bytes(static_files()[name].body)
        sizes = [one.stat().st_size for one in scratch.rglob("*") if one.is_file()]
        if folder.exists():
            folder.rmdir()
        put_in_place(scratch, folder)
    return PublishedSite(
        folder=str(folder),
        heads=heads,
        game_pages=pages.games,
        files=len(sizes),
        bytes=sum(sizes),
    )


def _game_extras(ladder: LocalLadder, data: GameReport) -> Mapping[str, Any]:
    """A page's game for the viewer, and its record as an address, since no server has them."""
    found = games.GAME.extras(data)
    game = found["shown"].data()
    if data.analyses.done is not None:
        document = ladder.analysis(game_id=data.game.game_id).document
        game["frames"] = fold(analysed_frames(read_record(data.record), None, document))
    del game["record"]
    packed = gzip.compress(json.dumps(game, separators=(",", ":")).encode(), mtime=0)
    record = base64.b64encode(data.record.encode()).decode()
    return {
        **found,
        "packed": base64.b64encode(packed).decode(),
        "record": f"data:application/json;base64,{record}",
    }
