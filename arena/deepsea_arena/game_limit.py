"""The timeout of a rated game: what no game takes on a machine that works."""

from __future__ import annotations

from typing import Final

from deepsea_ladder.season import Season
from deepsea_referee.timing.host_load import longest_wait_us
from deepsea_rules.faults import FAULTS_TO_FORFEIT
from deepsea_rules.ruleset import DIVES
from deepsea_rules.time_control import TimeControl

MOST_DECISIONS: Final = 60
"""More decisions of a seat in a dive than there are."""
BUSY: Final = 2
"""How many times as long decisions take on a busy host."""
SLACK_S: Final = 120.0
"""For what the clock does not count: unpacking bots, starting and restarting them."""


def game_seconds(season: Season, seats: int) -> float:
    """The timeout of a game in seconds, by the season's clock.

    Every decision may take its whole time, on a busy host, and those of a bot that forfeits as long
    as the referee waits at all.
    """
    clock = TimeControl.parse(season.clock)
    playing_us = DIVES * seats * MOST_DECISIONS * clock.budget_us + seats * clock.bank_us
    waiting_us = FAULTS_TO_FORFEIT * longest_wait_us(clock.budget_us + clock.bank_us)
    return SLACK_S + (BUSY * playing_us + waiting_us) / 1_000_000
