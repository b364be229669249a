"""The normal distribution against the standard library, and far beyond it against exact values."""

import ast
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepsea_ladder.rating import batch, convergence, gaussian, trueskill_fold
from deepsea_ladder.rating.gaussian import above, cdf, exp, pdf, quantile, within

# Computed with 60 digits: x, shift, variance left.
ABOVE = [
    (3.0, 0.004437839042125664, 0.9866667884583),
    (0.0, 0.7978845608028654, 0.3633802276324),
    (-0.6, 1.215025760237543, 0.2527278581017),
    (-3.0, 3.283098654930437, 0.07055918678527),
    (-20.0, 20.04975306852785, 0.002463261615052),
    (-60.0, 60.01665742024112, 0.0002773158834148),
]
# x, margin, shift, variance left
WITHIN = [
    (0.0, 0.5, 0.0, 0.08058915460081),
    (1.0, 0.5, -0.9206446052220353, 0.07694209794245),
    (-1.0, 0.5, 0.9206446052220353, 0.07694209794245),
    (4.0, 0.5, -3.73726693571926, 0.04354259020165),
    (-8.0, 2.0, 6.158482604544568, 0.02398763678905),
    (0.5, 0.05, -0.4995834895492362, 0.0008329515314499),
]


@given(st.floats(-700.0, 700.0))
def test_exp_is_the_exponential_function(x: float) -> None:
    assert exp(x) == pytest.approx(math.exp(x), rel=1e-15, abs=0.0)


def test_exp_of_very_little_is_nothing() -> None:
    assert exp(-745.5) == 0.0 == exp(-1e300)


@given(st.floats(-37.0, 8.0))
def test_cdf_is_the_distribution_function(x: float) -> None:
    assert cdf(x) == pytest.approx(0.5 * math.erfc(-x / math.sqrt(2.0)), rel=1e-12, abs=0.0)


@given(st.floats(-30.0, 30.0))
def test_pdf_is_the_density(x: float) -> None:
    expected = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    assert pdf(x) == pytest.approx(expected, rel=1e-12, abs=0.0)


@given(st.floats(0.0001, 0.9999))
def test_quantile_is_the_inverse_of_cdf(p: float) -> None:
    assert cdf(quantile(p)) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize(("x", "shift", "rest"), ABOVE)
def test_above(x: float, shift: float, rest: float) -> None:
    assert above(x) == pytest.approx((shift, rest), rel=1e-7)


@pytest.mark.parametrize(("x", "margin", "shift", "rest"), WITHIN)
def test_within(x: float, margin: float, shift: float, rest: float) -> None:
    assert within(x, margin) == pytest.approx((shift, rest), rel=1e-7, abs=1e-12)


@given(st.floats(-300.0, 300.0), st.floats(0.001, 5.0))
def test_knowing_more_leaves_less_variance_but_some(x: float, margin: float) -> None:
    for shift, rest in (above(x), within(x, margin)):
        assert 0.0 < rest <= 1.0
        assert math.isfinite(shift)


@pytest.mark.parametrize("edge", [-0.6, -50.0])
def test_above_has_no_steps_where_the_formula_changes(edge: float) -> None:
    one, other = above(edge - 1e-9), above(edge + 1e-9)
    assert one == pytest.approx(other, rel=1e-7)


@pytest.mark.parametrize("module", [gaussian, trueskill_fold, convergence, batch])
def test_ratings_use_nothing_that_differs_between_systems(module: object) -> None:
    """No function of the C library but the exact ones, no powers, no sums of floats."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))  # type: ignore[attr-defined]
    exact = {"sqrt", "ldexp", "isfinite", "inf"}
    for node in ast.walk(tree):
        assert not (isinstance(node, ast.Import) and any(a.name == "math" for a in node.names))
        if isinstance(node, ast.ImportFrom) and node.module == "math":
            assert {alias.name for alias in node.names} <= exact
        assert not isinstance(node, ast.Pow)
        assert not (isinstance(node, ast.Name) and node.id in ("sum", "pow"))
