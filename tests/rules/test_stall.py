"""The stall rule: a full round in which nothing changes ends the dive, as if air had run out."""

from helpers.positions import HOME, at, trail, turn


def test_two_divers_at_the_deep_end() -> None:
    """Empty-handed they may not turn back, and there is nowhere to go."""
    state = at("1 1 | A2v B1v")
    turn(state, 3)
    assert (state.dive, state.quiet, state.to_move) == (1, 1, 1)
    turn(state, 3)
    assert (state.dive, state.air, state.quiet) == (2, 25, 0)
    assert state.to_move == 0  # the farthest


def test_every_diver_still_out_counts_and_no_other() -> None:
    state = at("1 1 1 | A2v Bh C3v Dh/4 E1v")
    turn(state, 3)
    turn(state, 3)
    assert (state.dive, state.quiet) == (1, 2)
    turn(state, 3)
    assert (state.dive, state.to_move) == (2, 2)


def test_a_move_starts_the_count_again() -> None:
    state = at("1 1 1 1 | A4v B1v C3v")
    turn(state, 3)
    assert state.quiet == 1
    turn(state, 3)  # B swims to 2
    assert (state.dive, state.quiet) == (1, 0)
    turn(state, 3)
    turn(state, 3)
    assert (state.dive, state.quiet) == (1, 2)
    turn(state, 3)
    assert state.dive == 2


def test_taking_starts_the_count_again() -> None:
    state = at("1 1 | A2v B1v")
    turn(state, 3, search="take")
    assert (state.dive, state.quiet) == (1, 0)
    turn(state, 3)
    assert (state.dive, state.quiet) == (1, 1)
    turn(state, 2)  # A breathes now
    assert (state.dive, state.quiet, state.air) == (1, 0, 24)


def test_dropping_starts_the_count_again() -> None:
    state = at("1 x | A2v:1,2 Bh")
    turn(state, 2, search="drop:1")
    assert (state.dive, state.quiet) == (1, 0)


def test_turning_round_on_the_spot_changes_nothing() -> None:
    """Facing is neither air nor position nor cargo: it does not hold off the stall."""
    state = at("1 1 1 | A2v B1^ Ch | d1 a25 s1", "publisher")
    turn(state, 3, declare="back")  # barred, and B is on 1: A stays where it is
    assert state.dive == 2


def test_the_guide_never_needs_it() -> None:
    """A diver who cannot go on must turn back there, so the same position goes on."""
    state = at("1 1 | A2v B1v", "guide")
    turn(state, 3)
    assert state.place[0] == HOME
    assert state.dive == 1


def test_a_stalled_dive_is_cleaned_up_like_any_other() -> None:
    state = at("1 x 1 | A3v B1v | d1 a7")
    turn(state, 3)
    turn(state, 2)  # B swims to 2
    turn(state, 3)
    turn(state, 3)
    assert state.dive == 2
    assert trail(state) == "1 1"
