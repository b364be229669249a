"""The methods of admins: codes, authors, seasons, disabled bots, games in quarantine.

Invariant: every method needs the role and the scope of an admin, and whatever it changes stands in
the audit log with who did it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_arena.api.service import LadderPart
from deepsea_arena.api.submissions import bot_place
from deepsea_arena.api.types import (
    AuthorLine,
    AuthorList,
    ChangedAuthor,
    ChangedBot,
    CodeList,
    Done,
    NewCode,
    Quarantine,
    QuarantinedJob,
    SeasonControl,
)
from deepsea_arena.reports.seasons import (
    ClosedSeason,
    SeasonInfo,
    close_season,
    find_season,
    open_season,
    season_info,
    season_settings,
)
from deepsea_arena.reports.status import LadderStatus, ladder_status
from deepsea_arena.reports.tournaments import Kind as TournamentKind
from deepsea_arena.reports.tournaments import TournamentReport, tournament_report
from deepsea_ladder.accounts import StoredAuthor, code_digest, new_code
from deepsea_ladder.model.bots import BotState
from deepsea_ladder.model.games import JobStatus
from deepsea_ladder.season import Season
from deepsea_ladder.values import NO_TIME, milliseconds, parse_time, utc_time
from deepsea_referee.errors import UserError

CODE_DAYS = 14
MOST_MEETINGS = 1000


class AdminMethods(LadderPart):
    """The methods of admins."""

    def create_codes(
        self,
        *,
        count: int = 0,
        authors: Sequence[str] = (),
        days: int = 0,
    ) -> CodeList:
        most, longest = self.limits.codes, self.limits.code_days
        if count < 0 or not 1 <= count + len(authors) <= most:
            raise UserError(f"from 1 to {most} codes are made at once")
        if not 0 <= days <= longest:
            raise UserError(f"days is a number from 1 to {longest}")
        wanted = [("", self._new_code()) for _ in range(count)]
        if not all(authors):
            raise UserError("an author's name is missing")
        wanted += [(name, self._new_code()) for name in authors]
        stored = self.store.accounts.make_codes(
            [(digest, author) for author, (_, digest) in wanted], days or CODE_DAYS, self.caller.by
        )
        return CodeList(
            tuple(
                replace(one, code=secret)
                for one, (_, (secret, _)) in zip(stored, wanted, strict=True)
            )
        )

    def codes(self) -> CodeList:
        return CodeList(tuple(self.store.accounts.codes()))

    def revoke_code(self, *, id: int = 0) -> Done:  # noqa: A002
        self.store.accounts.revoke_code(id, self.caller.by)
        return Done()

    def authors(self) -> AuthorList:
        return AuthorList(tuple(map(_author_line, self.store.authors.all())))

    def reset_author(self, *, author: str = "") -> NewCode:
        secret, digest = self._new_code()
        stored = self.store.accounts.reset(author, digest, CODE_DAYS, self.caller.by)
        return NewCode(replace(stored, code=secret))

    def rename_author(self, *, author: str = "", to: str = "") -> ChangedAuthor:
        return ChangedAuthor(_author_line(self.store.authors.rename(author, to, self.caller.by)))

    def anonymise_author(self, *, author: str = "") -> ChangedAuthor:
        return ChangedAuthor(_author_line(self.store.authors.anonymise(author, self.caller.by)))

    def block_author(self, *, author: str = "", blocked: bool = False) -> ChangedAuthor:
        found = self.store.authors.set_blocked(author, self.caller.by, blocked=blocked)
        return ChangedAuthor(_author_line(found))

    def season_control(self, *, season: str = "") -> SeasonControl:
        stored = find_season(self.store, season or None)
        return SeasonControl(season_info(stored), tuple(self.store.seasons.extensions(stored)))

    def set_deadline(self, *, season: str = "", until: str = "", author: str = "") -> SeasonControl:
        name = find_season(self.store, season or None).name
        time = parse_time(until)
        if time is None and until != "none":
            raise UserError(f"until: {until!r} is {NO_TIME}, and not none")
        ms = None if time is None else milliseconds(time)
        if author:
            self.store.seasons.extend(name, author, ms, self.caller.by)
        else:
            self.store.seasons.set_deadline(name, ms, self.caller.by)
        return self.season_control(season=name)

    def pause_season(self, *, season: str = "", paused: bool = False) -> SeasonControl:
        name = find_season(self.store, season or None).name
        self.store.seasons.set_paused(name, self.caller.by, paused=paused)
        return self.season_control(season=name)

    def open_season(
        self, *, settings: Mapping[str, Any] | None = None, deadline: str = ""
    ) -> SeasonInfo:
        opened = season_settings(Season.from_table(settings or {}))
        if opened.isolation == "process" and not self.caller.is_machine:
            raise ApiError(Kind.DENIED, "isolation `process` is chosen on the ladder's machine")
        until, fresh = _time("deadline", deadline), self.service.entropy
        return open_season(self.store, opened, fresh, submissions_until=until, by=self.caller.by)

    def close_season(self, *, season: str = "", at_once: bool = False) -> ClosedSeason:
        return close_season(self.store, season, self.caller.by, at_once=at_once)

    def begin_tournament(
        self,
        *,
        kind: TournamentKind = "round-robin",
        name: str = "",
        bots: Sequence[str] = (),
        seats: int = 2,
        meetings: int = 1,
        season: str = "",
        embargo_until: str = "",
    ) -> TournamentReport:
        if not 1 <= meetings <= MOST_MEETINGS:
            raise UserError(f"meetings is a number from 1 to {MOST_MEETINGS}")
        from deepsea_arena.tournaments import TournamentRequest, begin_tournament  # plays games

        request = TournamentRequest(
            kind=kind,
            name=name,
            bots=tuple(bots),
            seats=seats,
            meetings=meetings,
            season=season or None,
            embargo_until=_time("embargo_until", embargo_until),
        )
        begin_tournament(self.store, request, self.service.entropy, self.caller.by)
        return tournament_report(self.store, name)

    def status(self) -> LadderStatus:
        return ladder_status(self.store)

    def set_bot_state(self, *, bot: str = "", state: str = "", reason: str = "") -> ChangedBot:
        if state == BotState.ACTIVE:
            found = self.store.bots.enable(bot, self.caller.by)
        elif state == BotState.DISABLED:
            if not reason.strip():
                raise UserError("say the reason, for the bot's author")
            found = self.store.bots.disable(bot, reason, self.caller.by)
        else:
            raise UserError("state is active or disabled")
        return ChangedBot(bot_place(found))

    def quarantine(self) -> Quarantine:
        store = self.store
        found = [
            job
            for season in store.seasons.all()
            for job in store.queue.listed(season, JobStatus.QUARANTINED)
        ]
        return Quarantine(
            tuple(
                QuarantinedJob(job.game_id, job.lineup, job.failures, job.note or "")
                for job in found
            )
        )

    def requeue(self, *, game_id: str = "") -> Done:
        self.store.jobs.requeue(game_id, self.caller.by)
        return Done()

    def _new_code(self) -> tuple[str, str]:
        """A new code, and what is stored of it."""
        secret = new_code(self.service.entropy())
        digest = code_digest(secret)
        assert digest is not None
        return secret, digest


def _time(name: str, text: str) -> datetime | None:
    """The time in a parameter; None if it was left out."""
    time = parse_time(text) if text else None
    if text and time is None:
        raise UserError(f"{name}: {text!r} is {NO_TIME}")
    return time


def _author_line(author: StoredAuthor) -> AuthorLine:
    return AuthorLine(
        author=author.name,
        role=author.role.word,
        state=author.state,
        bots=author.bots,
        tokens=author.tokens,
        created_at=utc_time(author.created_at),
    )
