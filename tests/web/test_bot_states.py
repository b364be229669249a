"""Who may do what to a bot in each state: the table, by API, pages, commands, and from afar."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
from sqlalchemy import update

from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.remote import RemoteLadder
from deepsea_arena.api.submissions import Archive
from deepsea_bundle.atomic import stored_files
from deepsea_cli.ladder.submit import follow_submission
from deepsea_ladder.bot_states import RIGHTS, BotDeed, changes_state
from deepsea_ladder.errors import SubmissionError
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_ladder.model import BotState, Submission, TaskState
from deepsea_ladder.store import schema
from helpers import ladder
from helpers.commands import called
from helpers.members import forms_of, multipart
from helpers.remote import served
from helpers.submissions import zipped
from helpers.world import ANNA, World

BOT, REASON, KEY = "anna", "as its reason says", "k" * 20
TEXTS = {BotDeed.SAME_FILES: BOT, BotDeed.WHOLE_FILES: BOT, BotDeed.OTHER_FILES: "better"}
"""The texts of the bots that anna submits."""


def bring(world: World, state: BotState) -> None:
    """Bring anna's bot into a state, with the reason of that, and end what waits to be checked."""
    reason = None if state is BotState.ACTIVE else REASON
    change = "UPDATE bots SET state = :state, reason = :reason WHERE name = :bot"
    ladder.write(world.service.store, change, state=state, reason=reason, bot=BOT)
    ladder.write(world.service.store, "UPDATE tasks SET state = 'failed' WHERE kind = 'check'")


def damage(world: World, state: BotState) -> None:
    """Damage the stored files of anna's bot, which is suspended for that if it is suspended."""
    digest = world.service.store.bots.get(BOT).current.digest
    ladder.write(
        world.service.store,
        update(schema.archives).where(schema.archives.c.digest == digest).values(content=b"no zip"),
        update(schema.bots)
        .where(schema.bots.c.name == BOT)
        .values(is_damaged=state is BotState.SUSPENDED),
    )


def check(world: World, text: str) -> None:
    """Take in the submission that waits, as a runner does. Raises `SubmissionError`."""
    submissions, bundle = world.service.store.submissions, replace(ladder.a_bundle(text), name=BOT)
    lease = submissions.claim("runner", 60)
    assert lease is not None
    if not submissions.accept(lease, bundle, USUAL_LIMITS, 1, has_played=False):
        assert submissions.accept(lease, bundle, USUAL_LIMITS, 1, has_played=True)


def by_api(world: World, deed: BotDeed) -> None:
    anna, operator = world.ladder(ANNA), world.ladder("admin")
    match deed:
        case BotDeed.WITHDRAW:
            anna.withdraw(bot=BOT)
        case BotDeed.DISABLE:
            operator.set_bot_state(bot=BOT, state="disabled", reason="another reason")
        case BotDeed.ENABLE:
            operator.set_bot_state(bot=BOT, state="active")
        case _:
            next(anna.submit(Archive.of(zipped(TEXTS[deed]), BOT, KEY, 1000)))
            check(world, TEXTS[deed])


def by_page(world: World, deed: BotDeed) -> None:
    anna, operator = world.person(ANNA), world.person("admin")
    match deed:
        case BotDeed.WITHDRAW:
            answer = anna.do("/account/bots/withdraw", {"bot": BOT})
        case BotDeed.DISABLE:
            fields = {"bot": BOT, "state": "disabled", "reason": "another reason"}
            answer = operator.do("/admin/bots/state", fields)
        case BotDeed.ENABLE:
            answer = operator.do("/admin/bots/state", {"bot": BOT, "state": "active"})
        case _:
            fields = {"key": KEY, "bot": BOT}
            form = multipart([*fields.items()], "bot.zip", zipped(TEXTS[deed]))
            answer = anna.post_body("/submit", *form)
            if answer.status == 303:
                check(world, TEXTS[deed])
    if answer.status != 303:
        assert answer.status == 409, answer.text
        raise SubmissionError("".join(re.findall(r'class="problem"[^>]*>([^<]*)', answer.text)))


COMMANDS = {
    BotDeed.WITHDRAW: ("withdraw", BOT, "--reason", "another reason"),
    BotDeed.DISABLE: ("disable", BOT, "--reason", "another reason"),
    BotDeed.ENABLE: ("disable", BOT, "--undo"),
}


def by_command(world: World, deed: BotDeed) -> None:
    store = world.service.store
    if deed in COMMANDS:
        done = called("ladder", *COMMANDS[deed], "--store", store.database.path)
        if done.status:
            raise SubmissionError(done.refusal)
    else:  # which is all that `ladder submit` does once the bot has played
        store.bots.submit(BOT, ANNA, ladder.a_bundle(TEXTS[deed]))


def by_command_from_afar(world: World, deed: BotDeed) -> None:
    operators = (BotDeed.DISABLE, BotDeed.ENABLE)
    token = world.tokens["admin" if deed in operators else ANNA]
    with served(world.service) as server:
        url = f"http://127.0.0.1:{server.port}"
        if deed in COMMANDS:
            words = COMMANDS[deed]
            if deed is BotDeed.WITHDRAW:  # the reason is the ladder's from afar
                words = words[:2]
            with patch.dict(os.environ, DEEPSEA_LADDER_TOKEN=token):
                done = called("ladder", *words, "--remote", url)
            if done.status:
                raise SubmissionError(done.refusal)
            return
        # which is all that `ladder submit --remote` does with a bot that it has read

        def news(submission: Submission) -> None:
            if submission.state is TaskState.QUEUED:
                check(world, TEXTS[deed])

        def unexpected(event: object) -> None:
            pytest.fail(f"the connection broke: {event}")

        archive = Archive.of(zipped(TEXTS[deed]), BOT, KEY, 1000)
        with RemoteLadder(url, token) as afar:
            follow_submission(afar, archive, news, report_break=unexpected, pause=unexpected)


WAYS: dict[str, Callable[[World, BotDeed], None]] = {
    "API": by_api,
    "page": by_page,
    "command": by_command,
    "command from afar": by_command_from_afar,
}
DEEDS = tuple(deed for deed in BotDeed if deed not in (BotDeed.STRIKE, BotDeed.DAMAGE))


@pytest.mark.parametrize(("state", "deed", "way"), [*product(BotState, DEEDS, WAYS)])
def test_who_may_do_what_to_a_bot(world: World, state: BotState, deed: BotDeed, way: str) -> None:
    store, (after, allowed) = world.service.store, RIGHTS[deed]
    bring(world, state)
    if deed is BotDeed.WHOLE_FILES:
        damage(world, state)
    if state in allowed:
        WAYS[way](world, deed)
        bot = store.bots.get(BOT)
        stored_files(store.bots.archive(bot.current.digest), bot.current.digest)
        assert bot.state is after
        assert bot.current.number == (2 if deed is BotDeed.OTHER_FILES else 1)
        if deed is BotDeed.WITHDRAW and state is after:
            assert bot.reason == REASON
        return
    with pytest.raises((SubmissionError, ApiError)) as refused:
        WAYS[way](world, deed)
    told = str(refused.value).lower()
    assert f"{BOT} is {state}: {REASON}; " in told
    assert "whoever runs the ladder" in told
    bot = store.bots.get(BOT)
    assert (bot.state, bot.reason, bot.current.number) == (state, REASON, 1)


@pytest.mark.parametrize("state", BotState)
def test_pages_offer_what_may_be_done(world: World, state: BotState) -> None:
    bring(world, state)
    offered = {
        (form.action, dict(form.fields).get("state"))
        for name, page in ((ANNA, "/account"), ("admin", "/admin/bots"))
        for form in forms_of(world.person(name).get(page))
        if dict(form.fields).get("bot") == BOT
    }
    deeds = {
        "WITHDRAW": ("/account/bots/withdraw", None),
        "DISABLE": ("/admin/bots/state", "disabled"),
        "ENABLE": ("/admin/bots/state", "active"),
    }
    assert offered == {form for deed, form in deeds.items() if changes_state(deed, state)}


@pytest.mark.parametrize("state", [BotState.DISABLED, BotState.SUSPENDED])
def test_a_bot_that_was_taken_out_comes_not_back_under_another_name(
    world: World, state: BotState
) -> None:
    bring(world, state)
    words = f"these files are those of 'anna', which is {state}: {REASON}; submit other files"
    with pytest.raises(SubmissionError, match=words):
        world.service.store.bots.submit("anna2", ANNA, ladder.a_bundle(BOT))


def test_an_operators_decision_in_mid_check_holds_and_its_refusal_says_what_to_do(
    world: World,
) -> None:
    anna, store = world.ladder(ANNA), world.service.store
    bring(world, BotState.ACTIVE)
    next(anna.submit(Archive.of(zipped("better"), BOT, KEY, 1000)))
    world.ladder("admin").set_bot_state(bot=BOT, state="disabled", reason=REASON)
    with pytest.raises(SubmissionError) as refused:
        check(world, "better")
    assert refused.value.found == f"{BOT} is disabled: {REASON}"
    assert refused.value.remedy == "ask whoever runs the ladder, who alone can enable it"
    assert store.bots.get(BOT).state is BotState.DISABLED


def test_the_docs_have_the_table() -> None:
    docs = Path(__file__).parents[2] / "docs" / "ladder.md"
    rows = [f"| | {' | '.join(BotState)} |", f"|{'---|' * (len(BotState) + 1)}"]
    for deed, (after, allowed) in RIGHTS.items():
        cells = (after if state in allowed else "–" for state in BotState)
        rows.append(f"| {deed} | {' | '.join(cells)} |")
    assert "\n".join(rows) in docs.read_text(encoding="utf-8")
