"""The rule by which bots are taken out, by tables of their last games."""

from __future__ import annotations

import pytest

from deepsea_ladder.bot_states import Appearance, StrikeRules, conduct
from deepsea_ladder.rating import SeatResult

RULES = StrikeRules()
SPOILED = "5 of its last 10 games it forfeited, or had two faults in"


def appearances(letters: str) -> list[Appearance]:
    """A bot's games, the newest last: one letter each.

    `.` well played, `e` with one fault, `f` with two, `t` forfeited by timeouts, `c` crashed,
    `v` void while it was asked, `o` void while another was.
    """
    one = {
        ".": Appearance(SeatResult(1, 20, 2, 10, 0, None)),
        "e": Appearance(SeatResult(1, 20, 2, 10, 1, None)),
        "f": Appearance(SeatResult(1, 20, 2, 10, 2, None)),
        "t": Appearance(SeatResult(1, 0, 4, 3, 3, "timeout")),
        "c": Appearance(SeatResult(1, 0, 4, 1, 1, "crash")),
        "v": Appearance(None, asked=True),
        "o": Appearance(None),
    }
    return [one[letter] for letter in reversed(letters)]


@pytest.mark.parametrize(
    ("games", "reason"),
    [
        ("", None),
        ("." * 40, None),
        # It is not there.
        ("cc", None),
        ("ccc", "3 games in a row without it"),
        ("cc.cc", None),
        ("ccvc", "3 games in a row without it"),
        # It is there, and forfeits or does not miss by much.
        ("tttt", None),
        ("ttttt", SPOILED),
        ("t.t.t.t.t", SPOILED),
        ("t.." * 10, None),
        ("ttcct", SPOILED),
        ("ffttf", SPOILED),
        ("e" * 40, None),
        ("ttttt" + "." * 6, None),
        # Games are void while it is asked.
        ("vvvv", None),
        ("v.v.v.v.v", "5 of its last 20 games became void while it was asked"),
        # Every game that another bot plays is void as well: it is the host.
        ("vo" * 8, None),
        ("vvo" * 3, "6 of its last 20 games became void while it was asked"),
        ("v" * 5 + "." * 16, None),
    ],
)
def test_what_takes_a_bot_out(games: str, reason: str | None) -> None:
    assert conduct("otter", appearances(games), RULES)[1] == reason
