"""The API's methods for the caller's own account, and those of admins.

An account has tokens, sessions and its part of the audit log; a code becomes its first token.
Admins direct codes, authors, seasons, tournaments, disabled bots and games in quarantine.

Invariants: an account's method touches the caller's author and nobody else; a secret is shown once,
in the response that makes it, and stored as its hash; a token never has a scope that the token that
made it lacks; every method of admins needs an admin's role and scope, and its changes stand in the
audit log with their actor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from deepsea_arena.api.declarations import Done, LadderPart, method
from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_arena.api.submissions import BotPlace, bot_place
from deepsea_arena.seasons import (
    ClosedSeason,
    SeasonInfo,
    checked_settings,
    close_season,
    find_season,
    open_season,
    season_info,
)
from deepsea_arena.status import LadderStatus, Overview, ladder_status, overview
from deepsea_arena.tournament_state import TournamentKind
from deepsea_arena.tournaments import TournamentReport, tournament_report
from deepsea_ladder.accounts import (
    MACHINE,
    SHOWN,
    USUAL_SCOPES,
    AuditEntry,
    AuthorLine,
    Caller,
    CodeLine,
    NewToken,
    Role,
    Scope,
    SecretKind,
    SessionLine,
    TokenLine,
    address_prefix,
    new_secret,
    secret_digest,
)
from deepsea_ladder.errors import CodeRefused
from deepsea_ladder.limits import CODE_DAYS
from deepsea_ladder.model import (
    NO_TIME,
    BotState,
    Extension,
    Int64,
    TaskState,
    Time,
    milliseconds,
    parse_time,
    utc_time,
)
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.tournament import MOST_GAMES
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable, quoted

LONGEST_LABEL = 60
"""Maximum characters of a token's label."""
AUDIT = 100
"""Number of audit entries in a list unless the call says another one."""
MOST_AUDIT = 1000
"""Maximum of `limit` in a call of `audit`."""
MOST_MEETINGS = 1000
"""Maximum of `meetings` in a call of `begin_tournament`."""


class Account(Struct, frozen=True):
    """The author of a token or session, with the rights that it gives."""

    author: str
    role: str
    scopes: tuple[str, ...]
    token_id: Int64
    """The id of the token; 0 for a session."""
    expires_at: Time


class Redeemed(Struct, frozen=True):
    """A new token, which is shown only this time, and its account."""

    token: str
    account: Account


class CreatedToken(Struct, frozen=True):
    """A new token, whose secret is shown only this time."""

    secret: str
    token: TokenLine


class AccountMethods(LadderPart):
    """The methods of the caller's own account."""

    @method("POST", "/redeem", always=True)
    def redeem(self, *, code: str = "", author: str = "", label: str = "") -> Redeemed:
        """Redeem a code for a token. Too many wrong codes from an address are refused."""
        secret, token = self._new_token(label, USUAL_SCOPES, self.limits.token_days)
        digest = secret_digest(SecretKind.CODE, code)
        try:
            if digest is None:
                raise CodeRefused("this is no code: it has the form XXXX-XXXX-XXXX-XXXX")
            # The audit log gets only a prefix of the address, which names no person.
            prefix = address_prefix(self.caller.address)
            holder = self.store.accounts.redeem(digest, author, token, prefix)
        except CodeRefused:  # counted only now, so that a valid code is accepted in any case
            self.service.count_failure(self.caller.address)
            raise
        return Redeemed(secret, account_of(holder))

    @method("GET", "/account", role=Role.AUTHOR, key="account")
    def who_am_i(self) -> Account:
        """Describe the caller: author, role, scopes."""
        _ = self.own_id  # raises UserError for the ladder's machine, which has no account
        holder = self.store.accounts.holder_by_id(self.caller.secret_id)
        if holder is None:
            raise ApiError(RefusalKind.UNAUTHENTICATED, "this token is no longer valid")
        return account_of(holder)

    @method("GET", "/account/tokens", role=Role.AUTHOR, scope=Scope.READ, key="tokens")
    def tokens(self) -> tuple[TokenLine, ...]:
        """List the tokens of the caller's author, without their secrets."""
        return tuple(self.store.accounts.tokens(self.own_id))

    @method("POST", "/account/tokens", role=Role.AUTHOR, scope=Scope.SUBMIT)
    def create_token(
        self, *, label: str = "", scopes: Sequence[str] = (), days: int = 0
    ) -> CreatedToken:
        """Create another token of the caller's author, with at most the caller's scopes."""
        author_id = self.own_id
        token_scopes = tuple(map(_scope_named, scopes))
        if not token_scopes:
            token_scopes = tuple(scope for scope in USUAL_SCOPES if scope in self.caller.scopes)
        if not self.caller.scopes >= set(token_scopes):
            raise ApiError(
                RefusalKind.DENIED, "a token cannot give more than the one that makes it"
            )
        most_days = self.limits.token_days
        if not 0 <= days <= most_days:
            raise UserError(f"days is a number from 1 to {most_days}")
        valid_days = days or most_days  # 0, the default of the argument, stands for the most days
        secret, token = self._new_token(label, token_scopes, valid_days)
        stored = self.store.accounts.create_token(
            author_id, token, self.limits.tokens, self.caller.by
        )
        return CreatedToken(secret, stored)

    @method("DELETE", "/account/tokens/{id}", role=Role.AUTHOR)
    def revoke_token(self, *, id: int) -> Done:  # noqa: A002  (the name in the path)
        """End a token of the caller's author at once, and the sessions that it opened."""
        return self._revoke(SecretKind.TOKEN, id)

    @method("GET", "/account/sessions", role=Role.AUTHOR, scope=Scope.READ, key="sessions")
    def sessions(self) -> tuple[SessionLine, ...]:
        """List the logins of the caller's author to the pages."""
        return tuple(self.store.accounts.sessions(self.own_id))

    @method("DELETE", "/account/sessions/{id}", role=Role.AUTHOR)
    def end_session(self, *, id: int) -> Done:  # noqa: A002
        """End a login of the caller's author at once."""
        return self._revoke(SecretKind.SESSION, id)

    @method("GET", "/audit", role=Role.AUTHOR, scope=Scope.READ, key="entries")
    def audit(self, *, limit: int = 0, everybody: bool = False) -> tuple[AuditEntry, ...]:
        """List the newest entries of the audit log of the caller's author.

        With `everybody` those of all, for an admin.
        """
        if not 0 <= limit <= MOST_AUDIT:
            raise UserError(f"limit is a number from 1 to {MOST_AUDIT}")
        number = limit or AUDIT  # 0, the default of the argument, stands for AUDIT
        if everybody:
            self.check_admin()
            author_id = None
        else:
            author_id = self.own_id
        return tuple(self.store.audit.latest(number, author_id=author_id))

    def admin_token(self, author: str = "", label: str = "") -> Redeemed:
        """Make an author an admin, and return a token with every scope for it.

        Without `author` it is the author named `admin`. Only the ladder's machine may call this.
        """
        assert self.caller.is_machine
        secret, token = self._new_token(label, tuple(Scope), self.limits.token_days)
        holder = self.store.accounts.admin_token(author, token, MACHINE)
        return Redeemed(secret, account_of(holder))

    def _new_token(self, label: str, scopes: Sequence[Scope], days: int) -> tuple[str, NewToken]:
        """Return the secret of a new token, and what the store keeps of the token.

        label   a name by which its author knows the token
        days    the days until the token expires
        Raises UserError for a label that is too long.
        """
        if len(label) > LONGEST_LABEL:
            raise UserError(f"a label has at most {LONGEST_LABEL} characters")
        secret, digest = new_secret(SecretKind.TOKEN, self.service.entropy())
        start = secret[:SHOWN]  # shown in lists of tokens, so that people can tell them apart
        return secret, NewToken(digest, start, printable(label.strip()), days, tuple(scopes))

    def _revoke(self, kind: SecretKind, secret_id: int) -> Done:
        """End a token or session of the caller's author.

        Ending another secret than the caller's own needs the scope submit.
        """
        if secret_id != self.caller.secret_id and Scope.SUBMIT not in self.caller.scopes:
            raise ApiError(RefusalKind.DENIED, "this needs a token with the scope submit")
        self.store.accounts.revoke(kind, secret_id, self.caller.by, self.own_id)
        return Done()


def account_of(holder: Caller) -> Account:
    """Return the account of a token or session, whose holder the store has found."""
    return Account(
        author=holder.author,
        role=holder.role.word,
        scopes=tuple(scope for scope in Scope if scope in holder.scopes),
        token_id=Int64(holder.secret_id if holder.secret_kind is SecretKind.TOKEN else 0),
        expires_at=utc_time(holder.expires_at),
    )


def _scope_named(word: str) -> Scope:
    """Return the scope with this name. Raises UserError if there is none."""
    try:
        return Scope(word)
    except ValueError:
        choices = ", ".join(Scope)
        raise UserError(f"there is no scope {quoted(word)}; choose from {choices}") from None


# -------------------------------------------------------------------------------- methods of admins


class SeasonControl(Struct, frozen=True):
    """A season with the settings that only admins see."""

    season: SeasonInfo
    extensions: tuple[Extension, ...]
    """The authors who may submit after the deadline, by name."""


class QuarantinedJob(Struct, frozen=True):
    """A game in quarantine, which is not played since it has failed too often."""

    game_id: str
    bots: tuple[str, ...]
    failures: int
    note: str
    """The reason of the last failure."""


class AdminMethods(LadderPart):
    """The methods of admins."""

    @method("POST", "/admin/codes", role=Role.ADMIN, scope=Scope.ADMIN, key="codes")
    def create_codes(
        self, *, count: int = 0, authors: Sequence[str] = (), days: int = 0
    ) -> tuple[CodeLine, ...]:
        """Create `count` codes for new authors, and one for each author in `authors`.

        Authors in `authors` that do not exist are added.
        """
        code_count = count + len(authors)
        most_codes, most_days = self.limits.codes, self.limits.code_days
        if count < 0 or code_count < 1 or code_count > most_codes:
            raise UserError(f"from 1 to {most_codes} codes are made at once")
        if not 0 <= days <= most_days:
            raise UserError(f"days is a number from 1 to {most_days}")
        if not all(authors):
            raise UserError("an author's name is missing")
        valid_days = days or CODE_DAYS  # 0, the default of the argument, stands for CODE_DAYS
        codes_without_name = [""] * count  # the new author will choose a name
        secrets: list[str] = []
        digests_and_names: list[tuple[str, str]] = []
        for name in [*codes_without_name, *authors]:
            secret, digest = self._new_code()
            secrets.append(secret)
            digests_and_names.append((digest, name))
        stored = self.store.accounts.make_codes(digests_and_names, valid_days, self.caller.by)
        # The store does not know the secrets, which are shown only here.
        return tuple(
            replace(line, code=secret) for line, secret in zip(stored, secrets, strict=True)
        )

    @method("GET", "/admin/codes", role=Role.ADMIN, scope=Scope.ADMIN, key="codes")
    def codes(self) -> tuple[CodeLine, ...]:
        """List the codes that can still be redeemed, without their secrets."""
        return tuple(self.store.accounts.codes())

    @method("DELETE", "/admin/codes/{id}", role=Role.ADMIN, scope=Scope.ADMIN)
    def revoke_code(self, *, id: int) -> Done:  # noqa: A002
        """End a code: it can no longer be redeemed."""
        self.store.accounts.revoke(SecretKind.CODE, id, self.caller.by)
        return Done()

    @method("GET", "/admin/authors", role=Role.ADMIN, scope=Scope.ADMIN, key="authors")
    def authors(self) -> tuple[AuthorLine, ...]:
        """List all authors."""
        return tuple(self.store.authors.all())

    @method("GET", "/admin/overview", role=Role.ADMIN, scope=Scope.ADMIN)
    def overview(self, *, season: str = "") -> Overview:
        """List the authors with their submissions, refusals, and standings in a season."""
        return overview(self.store, season or None)

    @method("POST", "/admin/authors/{author}/reset", role=Role.ADMIN, scope=Scope.ADMIN, key="code")
    def reset_author(self, *, author: str) -> CodeLine:
        """End all tokens and logins of an author, and create a code for new ones."""
        secret, digest = self._new_code()
        stored = self.store.accounts.reset(author, digest, CODE_DAYS, self.caller.by)
        return replace(stored, code=secret)

    @method(
        "POST", "/admin/authors/{author}/rename", role=Role.ADMIN, scope=Scope.ADMIN, key="author"
    )
    def rename_author(self, *, author: str, to: str = "") -> AuthorLine:
        """Give an author another name."""
        return self.store.authors.rename(author, to, self.caller.by)

    @method(
        "POST",
        "/admin/authors/{author}/anonymise",
        role=Role.ADMIN,
        scope=Scope.ADMIN,
        key="author",
    )
    def anonymise_author(self, *, author: str) -> AuthorLine:
        """Remove an author's name and rights for good; games stay."""
        return self.store.authors.anonymise(author, self.caller.by)

    @method(
        "POST", "/admin/authors/{author}/blocked", role=Role.ADMIN, scope=Scope.ADMIN, key="author"
    )
    def block_author(self, *, author: str, blocked: bool = False) -> AuthorLine:
        """Block an author, or with `blocked` false end the block."""
        return self.store.authors.set_blocked(author, self.caller.by, blocked=blocked)

    @method("POST", "/admin/settings/{name}", role=Role.ADMIN, scope=Scope.ADMIN)
    def set_setting(self, *, name: str, value: int | None = None) -> Done:
        """Change a setting of the ladder, or without `value` set it back to its default.

        The server applies it within 5 seconds.
        """
        self.store.settings.change(name, value, self.caller.by)
        return Done()

    @method("GET", "/admin/season", role=Role.ADMIN, scope=Scope.ADMIN)
    def season_control(self, *, season: str = "") -> SeasonControl:
        """Describe a season, with its deadline and the authors who have more time."""
        stored = find_season(self.store, season or None)
        return SeasonControl(season_info(stored), tuple(self.store.seasons.extensions()[stored.id]))

    @method("POST", "/admin/season/deadline", role=Role.ADMIN, scope=Scope.ADMIN)
    def set_deadline(self, *, season: str = "", until: str = "", author: str = "") -> SeasonControl:
        """Set the time until which everybody may submit to a season, such as 2027-01-31T18:00Z.

        With `author` set the later time until which that author alone may submit. `none` removes
        the deadline, or the author's later time.
        """
        season_name = find_season(self.store, season or None).name
        time = parse_time(until)
        if time is None and until != "none":
            raise UserError(f"until: {until!r} is {NO_TIME}, and not none")
        until_ms = None if time is None else milliseconds(time)
        if author:
            self.store.seasons.extend(season_name, author, until_ms, self.caller.by)
        else:
            self.store.seasons.set_deadline(season_name, until_ms, self.caller.by)
        return self.season_control(season=season_name)

    @method("POST", "/admin/season/paused", role=Role.ADMIN, scope=Scope.ADMIN)
    def pause_season(self, *, season: str = "", paused: bool = False) -> SeasonControl:
        """Pause a season, which starts no more games, or with `paused` false resume it."""
        name = find_season(self.store, season or None).name
        self.store.seasons.set_paused(name, self.caller.by, paused=paused)
        return self.season_control(season=name)

    @method("POST", "/admin/seasons", role=Role.ADMIN, scope=Scope.ADMIN)
    def open_season(
        self, *, settings: Mapping[str, Any] | None = None, deadline: str = ""
    ) -> SeasonInfo:
        """Open a season, with `settings` as in a settings file.

        They hold the season's name and every setting that differs from its default.
        """
        season = checked_settings(SeasonSettings.from_table(settings or {}))
        # Bots of strangers would run without a sandbox: only its operator may risk that.
        if season.isolation == "process" and not self.caller.is_machine:
            raise ApiError(
                RefusalKind.DENIED, "isolation `process` is chosen on the ladder's machine"
            )
        return open_season(
            self.store,
            season,
            self.service.entropy,
            submissions_until=_parsed_time("deadline", deadline),
            by=self.caller.by,
        )

    @method("POST", "/admin/season/close", role=Role.ADMIN, scope=Scope.ADMIN)
    def close_season(self, *, season: str = "", at_once: bool = False) -> ClosedSeason:
        """Close a season for good, once all submitted bots have been checked and have played.

        With `at_once` it does not wait for them. Repeat the call until the response has the seed;
        until then the response says for which bots, submissions and games the season waits.
        """
        return close_season(self.store, season, self.caller.by, at_once=at_once)

    @method("POST", "/admin/tournaments", role=Role.ADMIN, scope=Scope.ADMIN)
    def begin_tournament(
        self,
        *,
        kind: TournamentKind = "round-robin",
        name: str = "",
        bots: Sequence[str] = (),
        seats: int = 2,
        meetings: int = 1,
        top: int = 0,
        games: int = 0,
        season: str = "",
    ) -> TournamentReport:
        """Begin a tournament with the settings of `season`; it is played before all other games.

        Without `bots` all active bots take part. `top` and `games` apply only to a final.
        """
        if not 1 <= meetings <= MOST_MEETINGS:
            raise UserError(f"meetings is a number from 1 to {MOST_MEETINGS}")
        if top < 0 or not 0 <= games <= MOST_GAMES:
            raise UserError(
                f"games is a number up to {MOST_GAMES}, and top one from 1; 0: the usual"
            )
        # Here, since this loads the modules that play games.
        from deepsea_arena.tournament_run import TournamentRequest, begin_tournament

        request = TournamentRequest(
            kind=kind,
            name=name,
            bots=tuple(bots),
            seats=seats,
            meetings=meetings,
            top=top,
            games=games,
            season=season or None,
        )
        begin_tournament(self.store, request, self.service.entropy, self.caller.by)
        return tournament_report(self.store, name)

    @method("GET", "/admin/status", role=Role.ADMIN, scope=Scope.ADMIN)
    def status(self) -> LadderStatus:
        """Describe the ladder's queues, leases and problems, season by season."""
        return ladder_status(self.store)

    @method("POST", "/admin/bots/{bot}/state", role=Role.ADMIN, scope=Scope.ADMIN, key="bot")
    def set_bot_state(self, *, bot: str, state: str = "", reason: str = "") -> BotPlace:
        """Disable a bot, which its author cannot undo, or enable it again.

        `state` is `disabled`, with a `reason` for the bot's author, or `active`.
        """
        if state == BotState.ACTIVE:
            changed_bot = self.store.bots.enable(bot, self.caller.by)
        elif state == BotState.DISABLED:
            if not reason.strip():
                raise UserError("say the reason, for the bot's author")
            changed_bot = self.store.bots.disable(bot, reason, self.caller.by)
        else:
            raise UserError("state is active or disabled")
        return bot_place(changed_bot)

    @method("GET", "/admin/quarantine", role=Role.ADMIN, scope=Scope.ADMIN, key="jobs")
    def quarantine(self) -> tuple[QuarantinedJob, ...]:
        """List the games in quarantine, which failed too often, oldest first."""
        store = self.store
        return tuple(
            QuarantinedJob(job.game_id, job.lineup, job.failures, job.note or "")
            for season in store.seasons.all()
            for job in store.queue.listed(season, TaskState.QUARANTINED)
        )

    @method("POST", "/admin/quarantine/{game_id}", role=Role.ADMIN, scope=Scope.ADMIN)
    def requeue(self, *, game_id: str) -> Done:
        """Release a game from quarantine, so that it is played again."""
        self.store.jobs.requeue(game_id, self.caller.by)
        return Done()

    def _new_code(self) -> tuple[str, str]:
        """Return a new code and the digest that is stored for it."""
        return new_secret(SecretKind.CODE, self.service.entropy())


def _parsed_time(name: str, text: str) -> datetime | None:
    """Return the time in the parameter `name`; None for "". Raises UserError for other texts."""
    time = parse_time(text) if text else None
    if text and time is None:
        raise UserError(f"{name}: {text!r} is {NO_TIME}")
    return time
