"""Uploads: an archive that comes in parts, over HTTP or from a form of the pages.

Invariants: nothing of an upload is in the store before all of it is there and is what its header
says; its bytes lie in a temporary file, so that many at once take little memory; nothing in them is
read as an archive here; one that is refused leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_bundle import names
from deepsea_bundle.errors import BundleError
from deepsea_ladder.limits import RemoteLimits, size_in_words
from deepsea_referee.timing.clock import Clock

PART = 256 * 1024
"""Bytes of a part as it is stored, and bytes of an upload that stay in memory."""
_EMPTY = 16
"""Empty parts of an upload that are let pass."""
_START_S = 10.0
"""The time that an upload has before its speed counts."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[A-Za-z0-9._:-]{8,64}")


class Upload:
    """One upload: `header` once, then `chunk` as often as bytes come, then `finish`; or `form`.

    clock      counts the time of the upload
    on_header  called when the header is there; may raise a refusal; True if the submission is there
               already, so that no bytes need come
    on_close   called once, when the upload is closed
    Methods raise ApiError for what is refused; the upload is closed then.
    """

    def __init__(
        self,
        limits: RemoteLimits,
        clock: Clock,
        *,
        on_header: Callable[[Upload], bool] = lambda _: False,
        on_close: Callable[[], object] = lambda: None,
    ) -> None:
        self.bot = ""
        self.size = 0
        """Bytes of the archive, as the header says."""
        self.sha256 = ""
        """SHA-256 of the archive in hex, as the header says."""
        self.key = ""
        self.limits = limits
        self.known = False
        """Whether the submission is there already: further bytes are counted and thrown away."""
        self._clock = clock
        self._on_header = on_header
        self._on_close = on_close
        self._began_us = clock.now_us()
        self._hash = hashlib.sha256()
        self._received = 0
        self._empty = 0
        self._begun = False
        self._announced = True
        self._finished = False
        self._closed = False
        self._lock = threading.Lock()
        self._file = tempfile.SpooledTemporaryFile(max_size=PART)  # noqa: SIM115

    def header(self, *, bot: str = "", size: int = 0, sha256: str = "", key: str = "") -> None:
        """Take the header: the bot's name, the archive's size and SHA-256, the sender's key."""
        self._check(not self._begun, "an upload has one header, and this is another")
        most = self.limits.archive_bytes
        self._check(size > 0, "the header says no size; an archive has at least a byte")
        sizes = size_in_words(size), size_in_words(most)
        self._check(size <= most, "the archive has {}; at most {} are taken".format(*sizes))
        self._check(
            _SHA256.fullmatch(sha256),
            "the header's sha256 is not 64 hexadecimal digits in lower case",
        )
        self.size, self.sha256 = size, sha256
        self._begin(bot, key)

    def form(self, parts: Iterable[bytes], *, bot: str = "", key: str = "") -> None:
        """Take the whole of an upload whose size and digest the sender cannot say: a form's."""
        self._announced = False
        self._begin(bot, key)
        for part in parts:
            self._take(part)
        self.finish()

    def chunk(self, data: bytes) -> None:
        """Take bytes of the archive."""
        self._check(self._begun, "an upload begins with its header, and these are bytes")
        self._check(not self._finished, "the upload has ended, and more bytes came")
        if not self._closed and self.left() <= 0:
            raise self.too_slow()
        if not data:
            self._empty += 1
            self._check(self._empty <= _EMPTY, "the parts of the upload are empty")
            return
        self._take(data)

    def _take(self, data: bytes) -> None:
        self._received += len(data)
        most = self.limits.archive_bytes
        self._check(self._received <= most, f"the archive has more than {size_in_words(most)}")
        self._check(
            not self._announced or self._received <= self.size,
            f"more than the {self.size} bytes came that the header says",
        )
        if not self.known:
            self._hash.update(data)
            with self._lock:
                if not self._closed:
                    self._file.write(data)

    def finish(self) -> None:
        """End the upload: everything is there, and is what the header says. May be repeated."""
        self._check(self._begun, "an upload begins with its header, and none came")
        if self._finished or self.known:
            return
        digest = self._hash.hexdigest()
        if self._announced:
            self._check(
                self._received == self.size,
                f"the upload ended after {self._received} of {self.size} bytes; send it again with "
                "the same key",
            )
            self._check(
                digest == self.sha256,
                f"the archive's SHA-256 is {digest}, and the header says {self.sha256}",
            )
        else:
            self._check(self._received > 0, "no file came")
        self.size, self.sha256 = self._received, digest
        self._finished = True

    def left(self, elsewhere: int = 0) -> float:
        """The seconds until more bytes must have come; not positive if it is too late.

        elsewhere  bytes that have come and are not taken yet
        """
        taken = (self._clock.now_us() - self._began_us) / 1_000_000
        received = self._received + elsewhere
        pace = _START_S + received / self.limits.upload_bytes_per_second
        return min(float(self.limits.upload_seconds), pace) - taken

    def too_slow(self) -> ApiError:
        """The refusal of an upload of which no bytes came in time; the upload is closed."""
        self.close()
        return ApiError(
            Kind.EXHAUSTED,
            f"the upload is too slow: it may take {self.limits.upload_seconds} seconds, and "
            f"{self.limits.upload_bytes_per_second} bytes a second are the least",
            1,
        )

    def parts(self) -> Iterator[bytes]:
        """The archive of an upload that was finished, in parts; nothing of one that is known."""
        if self.known:
            return
        assert self._finished, "an upload is stored when it is finished"
        self._file.seek(0)
        while part := self._file.read(PART):
            yield part

    def close(self) -> None:
        """Remove the bytes; may be repeated, and come from another thread at any time."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._file.close()
        self._on_close()

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, bot: str, key: str) -> None:
        self._check(
            _KEY.fullmatch(key),
            "the key of an upload has 8 to 64 characters of A-Z a-z 0-9 . _ : -",
        )
        if bot:
            try:
                names.checked("the bot's name", bot)
            except BundleError as error:
                self._check(False, str(error))
        self.bot, self.key, self._begun = bot, key, True
        try:
            self.known = self._on_header(self)
        except BaseException:
            self.close()
            raise

    def _check(self, fine: object, sentence: str) -> None:
        if self._closed:
            sentence, fine = "the upload was refused, and has ended", False
        if not fine:
            self.close()
            raise ApiError(Kind.INVALID, sentence)


class Uploads:
    """The uploads that a server receives now. Threads may share it.

    local  whether everybody who can reach the server is on its own machine: it listens on
           loopback, and no proxy is trusted. Else a season without a sandbox gets no uploads.
    """

    def __init__(self, clock: Clock, *, local: bool = False) -> None:
        self.local = local
        self._clock = clock
        self._lock = threading.Lock()
        self._coming: Counter[int] = Counter()

    def begin(
        self, author_id: int, limits: RemoteLimits, on_header: Callable[[Upload], bool]
    ) -> Upload:
        """An upload of an author. Raises ApiError if too many come in at this moment."""
        with self._lock:
            if self._coming[author_id] >= limits.open_submissions:
                raise ApiError(
                    Kind.EXHAUSTED,
                    f"{self._coming[author_id]} uploads of yours are under way; wait for their end",
                    5,
                )
            if self._coming.total() >= limits.queue:
                raise ApiError(
                    Kind.EXHAUSTED, f"{self._coming.total()} uploads are under way; come back", 5
                )
            self._coming[author_id] += 1
        on_close = partial(self._ended, author_id)
        return Upload(limits, self._clock, on_header=on_header, on_close=on_close)

    def _ended(self, author_id: int) -> None:
        with self._lock:
            self._coming[author_id] -= 1
            self._coming += Counter()  # forget who has none
