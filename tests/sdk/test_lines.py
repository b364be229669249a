"""The protocol "lines": what a message says as lines, and what is read of a bot's line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format

from deepsea_rules.game import Game
from deepsea_rules.randomness import game_seed, seed_from_text
from deepsea_rules.ruleset import PRESETS
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.errors import WireError
from deepsea_sdk.wire.lines import (
    LINE_BYTES,
    answer_from_line,
    hello_line,
    lines_of,
    ready_from_line,
)
from helpers.scripted import end_of, request_of, start_of

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")


def objects(message: pb.PlayResponse) -> list[dict[str, Any]]:
    """The objects of a message's lines, each of which is as the page says that lines are."""
    data, _ = lines_of(message.SerializeToString())
    lines = data.split(b"\n")
    assert lines.pop() == b""
    found = []
    for line in lines:
        assert line.isascii()
        found.append(json.loads(line))
        assert json.dumps(found[-1], separators=(",", ":")).encode() == line
    return found


def test_a_whole_game_is_told_in_lines() -> None:
    for preset, rules in PRESETS.items():
        game = Game(rules, 3, game_seed(seed_from_text("lines"), 0))
        (start,) = objects(pb.PlayResponse(starts=[start_of(game, "g", 1)]))
        assert start == {
            "type": "start",
            "game_id": "g",
            "seat": 1,
            "seats": 3,
            "rules": {"name": preset, "options": rules.options()},
            "clock": "100ms+2s",
            "commitment": game.commitment,
        }
        mark = 0
        while (question := game.pending()) is not None:
            request = request_of(game, "g", 7, mark)
            view, told = game.view(question.seat), len(game.events)
            (line,) = objects(pb.PlayResponse(requests=[request]))
            assert list(line)[:4] == ["type", "id", "kind", "legal"]
            assert list(line)[-1] == "events"
            assert (line["id"], line["kind"], line["game_id"]) == (7, question.kind, "g")
            assert line["legal"] == list(question.legal)
            assert (line["deadline_ms"], line["budget_ms"]) == (2100, 100)
            assert line["events"] == game.events_for(question.seat, mark)
            shown = line["view"]
            assert {key: shown[key] for key in ("seat", "dive", "air", "quiet_turns")} == {
                key: getattr(view, key) for key in ("seat", "dive", "air", "quiet_turns")
            }
            assert shown["known"] == {str(chip): value for chip, value in view.known.items()}
            stacks = [tuple(stack["chips"]) for stack in shown["stacks"]]
            units = [(), *((chip,) for chip in range(1, 33)), *stacks]
            assert tuple(units[number] for number in shown["trail"]) == view.trail[1:]
            laid = {tuple(one["chips"]) for one in shown["stacks"] if one["tail_pile"]}
            assert laid == view.laid
            for seen, diver in zip(shown["divers"], view.divers, strict=True):
                place = "home" if diver.home else "trail" if diver.place else "aboard"
                assert (seen["location"], seen["space"]) == (place, diver.place)
                assert tuple(units[number] for number in seen["cargo"]) == diver.cargo
                assert tuple(seen["bank"]) == diver.bank
                assert (seen["homeward"], seen["barred"]) == (diver.homeward, diver.barred)
            mark = told
            game.decide(question.legal[-1])
        end = end_of(game, "g", 1)
        (line,) = objects(pb.PlayResponse.FromString(wire.result_message(end, game.events)))
        assert (line["points"], line["seed"]) == (list(end.points), game.seed.hex())
        assert line["placements"] == list(end.placements)
        assert line["values"] == list(game.state.values[1:])
        assert [*line["events"], {}][:-1] == game.events_for(1, 0)[:-1]


def test_the_lines_of_the_page_are_those_of_its_worked_exchange() -> None:
    exchange = PAGE.partition("## A worked exchange")[2].partition("\n## ")[0]
    (text,) = re.findall(r"^requests \{\n.*?^\}$", exchange, re.M | re.S)
    message = text_format.Parse(text, pb.PlayResponse())
    (shown,) = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    assert [json.loads(shown)] == objects(message)


def test_messages_become_lines_in_the_order_of_their_fields() -> None:
    message = pb.PlayResponse(
        goodbye=pb.Goodbye(reason="over"),
        results=[pb.GameResult(game_id="old", is_void=True)],
        faults=[pb.FaultNotice(request_id=3, fault=pb.FAULT_TIMEOUT, message="late")],
    )
    fault, end, goodbye = objects(message)
    assert lines_of(message.SerializeToString())[1] == ["late"]
    wanted = {"type": "fault", "id": 3, "fault": "timeout", "message": "late", "forfeit": False}
    assert fault == wanted
    assert (end["type"], end["game_id"], end["is_void"]) == ("end", "old", True)
    assert goodbye == {"type": "goodbye", "reason": "over"}
    assert json.loads(hello_line())["protocol"] == "deepsea-lines/1"


def test_what_a_newer_referee_adds_is_unknown_or_left_out() -> None:
    request = pb.DecisionRequest(kind=99, legal=["x"], events=[pb.Event()])  # type: ignore[arg-type]
    (line,) = objects(pb.PlayResponse(requests=[request]))
    assert (line["kind"], line["legal"], line["events"]) == ("unknown", ["x"], [])


def answer(**fields: object) -> bytes:
    return json.dumps({"type": "answer", **fields}).encode()


@pytest.mark.parametrize(
    ("line", "read"),
    [
        (answer(id=1, action="take"), (1, "take", None)),
        (answer(id=1, action="take", more=[1]) + b"\r", (1, "take", None)),
        (b" \t" + answer(id=1, action="take") + b" ", (1, "take", None)),
        (b"\xef\xbb\xbf" + answer(id=1, action="take"), (1, "take", None)),
        (answer(id=2, error="a\nb"), (2, "", "a\nb")),
        (answer(id=2, action="up", reason="search()"), (2, "up", "search()")),
        (answer(id=2, action="up", error="nothing"), (2, "up", None)),
        (answer(id=3, action="\ud800\0"), (3, "?\0", None)),
        (answer(id=3, error="\ud800"), (3, "", "\\ud800")),
        (answer(id=3, action="x" * 60_000), (3, "x" * 1000, None)),
    ],
)
def test_an_answer_is_read(line: bytes, read: tuple[int, str, str | None]) -> None:
    assert answer_from_line(line) == wire.RequestAnswer(*read)


NO_JSON = "which is not JSON"
NO_ANSWER = "which is no answer"
NO_ID = "which has no id of a request"
NO_TEXT = "which has neither action nor error as a text"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", NO_JSON),
        (b"take", NO_JSON),
        (b'{"type":"answer","id":1,', NO_JSON),
        (answer(id=1, action="take") * 2, NO_JSON),
        (b'{"type":"answer","id":1,"action":"ta\0ke"}', NO_JSON),
        (b"\0" + answer(id=1, action="take"), NO_JSON),
        (b"\xff\xfe", NO_JSON),
        (answer(id=1, action="take").decode().encode("utf-16"), NO_JSON),
        (b"[" * LINE_BYTES, NO_JSON),
        (b'{"a":' * 10_000, NO_JSON),
        (b"9" * LINE_BYTES, NO_JSON),
        (b'"answer"', "which is no JSON object"),
        (b"[1]", "which is no JSON object"),
        (b"{}", NO_ANSWER),
        (b'{"type":["answer"],"id":1,"action":"take"}', NO_ANSWER),
        (b'{"type":"ready"}', NO_ANSWER),
        (answer(action="take"), NO_ID),
        (answer(id="1", action="take"), NO_ID),
        (answer(id=True, action="take"), NO_ID),
        (answer(id=1.0, action="take"), NO_ID),
        (answer(id=0, action="take"), NO_ID),
        (answer(id=-1, action="take"), NO_ID),
        (answer(id=1 << 64, action="take"), NO_ID),
        (answer(id=1), NO_TEXT),
        (answer(id=1, action=""), NO_TEXT),
        (answer(id=1, action=None), NO_TEXT),
        (answer(id=1, action=["take"]), NO_TEXT),
        (answer(id=1, error=5), NO_TEXT),
        (answer(id=1, action="up", reason={}), NO_TEXT),
    ],
)
def test_any_other_line_is_refused_with_its_beginning(line: bytes, why: str) -> None:
    with pytest.raises(WireError) as refused:
        answer_from_line(line)
    assert str(refused.value).endswith(why)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 600


def test_the_first_line_says_what_a_bot_can_do() -> None:
    assert ready_from_line(b'{"type":"ready"}') == frozenset()
    line = b'{"type":"ready","features":["no_events","of tomorrow"],"name":"x"}'
    assert ready_from_line(line) == {"no_events", "of tomorrow"}
    for wrong in (b"hello", b"{}", b'{"type":"ready","features":"x"}', answer(id=1, action="x")):
        with pytest.raises(WireError):
            ready_from_line(wrong)
