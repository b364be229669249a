"""Bots that fork in their decisions: by os.fork, subprocess and pools, in each isolation."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Literal

import pytest

from deepsea_referee import run_match
from helpers.tiers import daily

BOT = """\
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
import os
import subprocess
import sys

from deepsea_sdk import Bot, run

FORK = multiprocessing.get_context("fork")


def os_fork():
    child = os.fork()
    if child == 0:
        os._exit(7)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def subprocess_run():
    return subprocess.run([sys.executable, "-c", "exit(7)"]).returncode == 7


def multiprocessing_pool():
    with FORK.Pool(2) as pool:
        return pool.map(abs, [-1, -2]) == [1, 2]


def process_pool_executor():
    with ProcessPoolExecutor(2, mp_context=FORK) as pool:
        return list(pool.map(abs, [-1, -2])) == [1, 2]


class Forks(Bot):
    def decide(self, view):
        assert WAY()
        return view.legal[0]


if __name__ == "__main__":
    run(Forks)
"""
WAYS = ("os_fork", "subprocess_run", "multiprocessing_pool", "process_pool_executor")
ISOLATIONS = ("sandbox", "process", "in-process")
CASES = list(product(WAYS, ISOLATIONS))
DAILY = [("multiprocessing_pool", "in-process"), ("process_pool_executor", "process")]


@pytest.mark.parametrize(("way", "isolation"), daily(CASES, DAILY))
def test_a_bot_may_fork_at_every_decision(
    tmp_path: Path, way: str, isolation: Literal["sandbox", "process", "in-process"]
) -> None:
    decisions = 20 if (way, isolation) in DAILY else 200
    bot = tmp_path / "forks.py"
    bot.write_text(BOT.replace("WAY", way))
    decided = games = 0
    while decided < decisions:
        games += 1
        result = run_match(
            [str(bot), "random"],
            clock="60s",
            seed=f"fork {games}",
            isolation="process" if isolation == "in-process" else isolation,
            in_process=isolation == "in-process",
        )
        assert list(result.faults) == []
        decided += result.summaries()[0].decisions
