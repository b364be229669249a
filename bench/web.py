"""The ladder's site: times of pages, sizes of a first visit, and what watchers cost.

    python bench/web.py [--store FOLDER] [--bots 100] [--games 100000] [--requests 20]
                        [--watchers 1000] [--only TOPIC]... [--json [FILE]]

The ladder is made once, in some minutes, and kept in the folder. Times are of requests over one
connection to a server in a process of its own, and want a machine that does nothing else; CPU times
of the server hold on a busy one too. Nothing here fails because something is slow.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import web_store
from deepsea_ladder.store import Store
from deepsea_web.site.app import KEPT_US
from figures import Row, at_most, beside, median, report

_PROGRAM = (sys.executable, "-m", "deepsea_cli")
_LINK = re.compile(rb'(?:href|src)="(/static/[^"]+)"')
_IMPORT = re.compile(rb'from "\./([^"]+)"')
QUIET_S = 10.0
"""How long idle watchers are looked at."""
ROUNDS = 10
"""Games that watchers are sent, one at a time."""


class Took(NamedTuple):
    """What a request took, in milliseconds."""

    wall: float
    cpu: float
    """Of the server."""


class Server:
    """`ladder serve` in a process of its own."""

    def __init__(self, store: Path) -> None:
        self.begun = time.monotonic()
        self._process = subprocess.Popen(
            (*_PROGRAM, "ladder", "serve", "--no-run", "--port", "0", "--store", str(store)),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        found = re.search(r"http://\S+", self._process.stdout.readline())
        if found is None:
            raise SystemExit("the server did not start")
        self.port = urlsplit(found[0]).port or 0
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body as they are sent."""
        given = {"Accept-Encoding": "gzip"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        self._connection.request("GET", path, headers=given)
        answer = self._connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()

    def text(self, path: str) -> bytes:
        """A body, unpacked."""
        status, headers, body = self.get(path)
        if status != 200:
            raise SystemExit(f"{path}: {status}")
        return gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body

    def cpu_s(self) -> float:
        """The CPU time that it has used."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9

    def memory_mib(self) -> float:
        """The memory that it holds."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Figures:
    """Measures a site, topic by topic."""

    def __init__(self, path: Path, games: int, requests: int, watchers: int) -> None:
        self._path = path
        self._games = games
        self._requests = requests
        self._watchers = watchers

    def pages(self) -> list[Row]:
        """Times of single pages."""
        rows = []
        with Server(self._path) as server:
            server.get("/")  # imports and templates
            cold = {
                "standings": ("/", 50),
                "bot with a tenth of all games": (f"/bots/{web_store.VETERAN}", 150),
                "table of pairs": ("/pairs", 0),
                "newest games": ("/games", 0),
            }
            for what, (path, goal) in cold.items():
                first = times_of(server, path, 1, outlive_pages)[0].wall
                times = times_of(server, path, self._requests, outlive_pages)
                rows.append(_row(f"{what}, not kept", times, goal, first_ms=first))
            step = max(1, self._games // (self._requests + 1))
            paths = (f"/games/{web_store.SEASON}-{step * n}" for n in range(1, self._requests + 1))
            rows.append(_row("game, not kept", [time_of(server, path) for path in paths], 60))
            server.get("/")
            rows.append(_row("standings, kept", times_of(server, "/", self._requests), 5))
            tag = server.get("/")[1]["etag"]
            times = [time_of(server, "/", tag) for _ in range(self._requests)]
            rows.append(_row("standings, not modified", times, 3))
        return rows

    def sizes(self) -> list[Row]:
        """What a first visit loads, packed."""
        rows = []
        with Server(self._path) as server:
            for what, path in (("standings", "/"), ("game", f"/games/{web_store.SEASON}-7")):
                total, scripts = 0, 0
                _, _, body = server.get(path)
                page = gzip.decompress(body)
                total += len(body)
                data = re.search(rb'data-frames="([^"]+)"', page)
                wanted = {link.decode() for link in _LINK.findall(page)}
                if data:
                    wanted.add(data[1].decode())
                done: set[str] = set()
                while wanted - done:
                    link = sorted(wanted - done)[0]
                    done.add(link)
                    size = len(server.get(link)[2])
                    total += size
                    if link.endswith(".js") and "uplot" not in link.lower():
                        scripts += size
                        base = link.rpartition("/")[0]
                        imported = _IMPORT.findall(server.text(link))
                        wanted |= {f"{base}/{name.decode()}" for name in imported}
                rows += [
                    _goal(f"first visit: {what}", f"{total / 1000:.1f} kB", total / 1000, 40),
                    _goal(f"its scripts: {what}", f"{scripts / 1000:.1f} kB", scripts / 1000, 20),
                ]
        return rows

    def start(self) -> list[Row]:
        """From the prompt to the first page."""
        times = []
        for _ in range(3):
            with Server(self._path) as server:
                server.get("/")
                times.append(time.monotonic() - server.begun)
        return [_goal("prompt to the first page", f"{median(times):.2f} s", median(times), 1.5)]

    def watchers(self) -> list[Row]:
        """What many streams cost, and how late news are."""
        with (
            Store.open(self._path) as store,
            Server(self._path) as server,
            _streams(server.port, self._watchers) as crowd,
        ):
            crowd.read_until(lambda stream: b"event: tv" in stream.text)
            memory = server.memory_mib()
            start, before = time.monotonic(), server.cpu_s()
            crowd.read_for(QUIET_S)
            idle = (server.cpu_s() - before) / (time.monotonic() - start)
            late: list[Took] = []
            before = server.cpu_s()
            for number in range(ROUNDS):
                play_one(store)
                sent = time.monotonic()
                crowd.forget()
                crowd.read_until(lambda stream: b"event: games" in stream.text)
                late += [Took(1000 * (one.at - sent), 0.0) for one in crowd.streams]
                crowd.read_for(0.5 + 0.37 * (number % 3))  # not in step with the server
            busy = (server.cpu_s() - before) / ROUNDS
        streams = f"{self._watchers:,} watchers"
        return [
            _goal(f"{streams}, idle", f"{100 * idle:.1f} % of a core", 100 * idle, 5),
            _row(f"{streams}: from a stored game to each of them", late, 250),
            beside(f"{streams}: CPU for a game", f"{1000 * busy:.0f} ms", cpu_ms=1000 * busy),
            beside(f"{streams}: memory", f"{memory:.0f} MiB", memory_mib=memory),
        ]

    def rated(self) -> list[Row]:
        """The rate of rated games with watchers beside them and without, in turns."""
        rates: dict[bool, list[float]] = {True: [], False: []}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ladder.db"
            command("init", path, "--isolation", "process")
            for name in ("heuristic", "greedy", "cautious", "random"):
                command("submit", path, name, "--author", f"author-{name}")
            command("run", path, "--games", "4")
            for _ in range(3):
                for watched in (False, True):
                    with ExitStack() as stack:
                        if watched:
                            server = stack.enter_context(Server(path))
                            crowd = stack.enter_context(_streams(server.port, self._watchers))
                            crowd.read_until(lambda stream: b"event: tv" in stream.text)
                            stack.enter_context(crowd.reading())
                        start = time.monotonic()
                        command("run", path, "--games", "40")
                        rates[watched].append(40 / (time.monotonic() - start))
        lost = 100 * (1 - median(rates[True]) / median(rates[False]))
        words = f"{median(rates[False]):.2f}/s alone, {median(rates[True]):.2f}/s beside"
        what = f"rate that rated games lose beside {self._watchers:,} watchers"
        return [_goal(what, f"{lost:.1f} %, {words}", lost, 5)]


def outlive_pages() -> None:
    """Wait until no page that was kept is of use."""
    time.sleep(KEPT_US / 1_000_000)


def times_of(
    server: Server, path: str, times: int, before: Callable[[], object] = lambda: None
) -> list[Took]:
    """The times of one page or call, over and over."""
    found = []
    for _ in range(times):
        before()
        found.append(time_of(server, path))
    return found


def time_of(server: Server, path: str, tag: str | None = None) -> Took:
    """The time of one request."""
    cpu, start = server.cpu_s(), time.monotonic()
    status, _, _ = server.get(path, **({} if tag is None else {"If_None_Match": tag}))
    took = Took(1000 * (time.monotonic() - start), 1000 * (server.cpu_s() - cpu))
    if status != (200 if tag is None else 304):
        raise SystemExit(f"{path}: {status}")
    return took


def play_one(store: Store) -> None:
    """Let the ladder have one more game, by the store's own way."""
    season = store.seasons.get(web_store.SEASON)
    ids = [bot.current.id for bot in store.bots.all()][: web_store.SEATS]
    store.jobs.add(season, [[ids]])
    (job,) = store.jobs.claim(season, "bench", 60)
    store.games.report(job, web_store.played(job, range(1, len(ids) + 1)))


class Stream:
    """A watcher's connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        self.socket.setblocking(False)
        self.text = b""
        self.at = 0.0
        """When it last got something."""


class Crowd:
    """Many watchers, read by one thread."""

    def __init__(self, port: int, number: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.streams = []
        for _ in range(number):
            stream = Stream(port)
            self.streams.append(stream)
            self._selector.register(stream.socket, selectors.EVENT_READ, stream)

    def close(self) -> None:
        """Leave."""
        for stream in self.streams:
            stream.socket.close()
        self._selector.close()

    def forget(self) -> None:
        """Forget what came."""
        for stream in self.streams:
            stream.text = b""

    def read_until(self, done: Callable[[Stream], bool], patience_s: float = 60) -> None:
        """Read until all have what is waited for."""
        end = time.monotonic() + patience_s
        missing = [stream for stream in self.streams if not done(stream)]
        while missing:
            if time.monotonic() > end:
                raise SystemExit(f"{len(missing)} watchers got nothing")
            self._read(0.1)
            missing = [stream for stream in missing if not done(stream)]

    def read_for(self, seconds: float) -> None:
        """Read whatever comes."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._read(left)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read in a process of its own, meanwhile."""
        child = os.fork()
        if child == 0:
            while True:
                self._read(1.0)
        try:
            yield
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)

    def _read(self, patience_s: float) -> None:
        for key, _ in self._selector.select(patience_s):
            stream: Stream = key.data
            got = stream.socket.recv(65536)
            if not got:
                raise SystemExit("the server ended a stream")
            stream.text += got
            stream.at = time.monotonic()


@contextmanager
def _streams(port: int, number: int) -> Iterator[Crowd]:
    crowd = Crowd(port, number)
    try:
        yield crowd
    finally:
        crowd.close()


def command(name: str, store: Path, *arguments: str) -> None:
    command = (*_PROGRAM, "ladder", name, *arguments, "--store", str(store))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _row(what: str, times: Sequence[Took], goal: float, **figures: float) -> Row:
    """Times in milliseconds: the 95th of a hundred, the median, and the server's CPU time."""
    walls = sorted(took.wall for took in times)
    high = walls[min(len(walls) - 1, int(0.95 * len(walls)))]
    cpu = median(took.cpu for took in times)
    words = f"p95 {high:.1f} ms, median {median(walls):.1f} ms, CPU {cpu:.1f} ms"
    figures |= {"p95_ms": high, "median_ms": median(walls), "cpu_ms": cpu}
    if not goal:
        return beside(what, words, **figures)
    return at_most(what, words, high, goal, **figures)


def _goal(what: str, words: str, value: float, goal: float) -> Row:
    return at_most(what, words, value, goal, value=value)


TOPICS = ("start", "sizes", "pages", "watchers", "rated")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", type=Path, help="the folder of the ladder; without, a new one")
    parser.add_argument("--bots", type=int, default=100)
    parser.add_argument("--games", type=int, default=100_000)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--watchers", type=int, default=1_000)
    parser.add_argument("--only", choices=TOPICS, action="append", help="one topic; all without")
    parser.add_argument("--json", nargs="?", const="-", metavar="FILE", help="JSON, too")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.store or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"ladder-{given.bots}-{given.games}.db"
        if not path.exists():
            print(f"making {path} ...", file=sys.stderr, flush=True)
            start = time.process_time()
            scratch = path.with_suffix(".new")
            scratch.unlink(missing_ok=True)
            web_store.make(scratch, given.bots, given.games)
            scratch.rename(path)
            print(f"{time.process_time() - start:.0f} s of CPU", file=sys.stderr, flush=True)
        figures = Figures(path, given.games, given.requests, given.watchers)
        topics = {topic: getattr(figures, topic) for topic in given.only or TOPICS}
        sys.exit(report(topics, given.json))


if __name__ == "__main__":
    main()
