"""The course of a lead: thinned out evenly, its newest point always there."""

from __future__ import annotations

from itertools import pairwise

from deepsea_referee.workbench.lead import LeadHistory, LeadPoint


def test_a_lead_of_any_length_is_thinned_out_and_ends_with_the_newest_point() -> None:
    history = LeadHistory(most=16)
    for blocks in range(1, 1001):
        history.add(LeadPoint(blocks, 1 / blocks, -1.0, 1.0))
    points = history.points
    assert 8 <= len(points) <= 17
    assert points[-1].blocks == 1000
    steps = {b.blocks - a.blocks for a, b in pairwise(points[:-1])}
    assert len(steps) == 1
    few = LeadHistory(most=16)
    for blocks in (1, 2, 3):
        few.add(LeadPoint(blocks, 0.0, -1.0, 1.0))
    assert [point.blocks for point in few.points] == [1, 2, 3]
    assert LeadHistory().points == []
