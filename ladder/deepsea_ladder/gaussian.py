"""The normal distribution in plain arithmetic, so that ratings have the same bits everywhere.

Invariants: only + - * / on doubles, `sqrt` and `ldexp`, whose rounding IEEE 754 defines, never a
function of the C library (`exp`, `erfc`, `pow`), whose last bit differs between systems; no
`sum`, which adds differently since Python 3.12. Accurate to about 1e-15 of the value.
"""

from __future__ import annotations

from math import ldexp

_LOG2_E = 1.4426950408889634
# The natural logarithm of 2 in two parts; a small whole number times the first is exact.
_LN2_HIGH = 0.693147180369123816490
_LN2_LOW = 1.90821492927058770002e-10
_SQRT_2 = 1.4142135623730951
_SQRT_2_OVER_PI = 0.7978845608028654
_ONE_OVER_SQRT_2PI = 0.3989422804014327
_ONE_OVER_SQRT_PI = 0.5641895835477563
_TAIL = 50.0
"""From here on the tail's own series is more accurate than a difference of large numbers."""


def exp(x: float) -> float:
    """e to the power of x, for x up to 700; 0 below -745."""
    if x < -745.0:
        return 0.0
    k = int(x * _LOG2_E + (0.5 if x > 0.0 else -0.5))
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    # The diagonal Padé approximant of order 6: whole coefficients, error below 1e-18 here.
    t = r * r
    even = 665280.0 + t * (75600.0 + t * (840.0 + t))
    odd = r * (332640.0 + t * (10080.0 + t * 42.0))
    return ldexp((even + odd) / (even - odd), k)


def _erf_small(x: float) -> float:
    """The error function for |x| up to 0.46875."""
    # This and the next function: W. J. Cody's rational approximations, Math. Comp. 23 (1969).
    t = x * x
    above = 1.85777706184603153e-1
    above = above * t + 3.16112374387056560e0
    above = above * t + 1.13864154151050156e2
    above = above * t + 3.77485237685302021e2
    above = above * t + 3.20937758913846947e3
    below = t + 2.36012909523441209e1
    below = below * t + 2.44024637934444173e2
    below = below * t + 1.28261652607737228e3
    below = below * t + 2.84423683343917062e3
    return x * above / below


def _erfcx(x: float) -> float:
    """exp(x * x) * erfc(x) for x from 0.46875 on."""
    if x <= 4.0:
        above = 2.15311535474403846e-8
        above = above * x + 5.64188496988670089e-1
        above = above * x + 8.88314979438837594e0
        above = above * x + 6.61191906371416295e1
        above = above * x + 2.98635138197400131e2
        above = above * x + 8.81952221241769090e2
        above = above * x + 1.71204761263407058e3
        above = above * x + 2.05107837782607147e3
        above = above * x + 1.23033935479799725e3
        below = x + 1.57449261107098347e1
        below = below * x + 1.17693950891312499e2
        below = below * x + 5.37181101862009858e2
        below = below * x + 1.62138957456669019e3
        below = below * x + 3.29079923573345963e3
        below = below * x + 4.36261909014324716e3
        below = below * x + 3.43936767414372164e3
        below = below * x + 1.23033935480374942e3
        return above / below
    t = 1.0 / (x * x)
    above = 1.63153871373020978e-2
    above = above * t + 3.05326634961232344e-1
    above = above * t + 3.60344899949804439e-1
    above = above * t + 1.25781726111229246e-1
    above = above * t + 1.60837851487422766e-2
    above = above * t + 6.58749161529837803e-4
    below = t + 2.56852019228982242e0
    below = below * t + 1.87295284992346725e0
    below = below * t + 5.27905102951428412e-1
    below = below * t + 6.05183413124413191e-2
    below = below * t + 2.33520497626869185e-3
    return (_ONE_OVER_SQRT_PI - t * above / below) / x


def pdf(x: float) -> float:
    """The density of the standard normal distribution."""
    return _ONE_OVER_SQRT_2PI * exp(-0.5 * (x * x))


def cdf(x: float) -> float:
    """The probability that a standard normal variable is at most x."""
    z = x / _SQRT_2
    if z < -0.46875:
        return 0.5 * _erfcx(-z) * exp(-(z * z))
    if z > 0.46875:
        return 1.0 - 0.5 * _erfcx(z) * exp(-(z * z))
    return 0.5 + 0.5 * _erf_small(z)


def quantile(p: float) -> float:
    """The x with `cdf(x) == p`, for p from 0.0001 to 0.9999; slow (bisection), for constants."""
    low, high = -5.0, 5.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle
        if cdf(middle) < p:
            low = middle
        else:
            high = middle


def above(x: float) -> tuple[float, float]:
    """Condition N(x, 1) on being above 0: the shift of the mean, and the remaining variance.

    The shift is pdf(x) / cdf(x); the variance goes from 1 towards 0 as x falls.
    """
    if x > -0.6:
        shift = pdf(x) / cdf(x)
    elif x > -_TAIL:
        shift = _SQRT_2_OVER_PI / _erfcx(-x / _SQRT_2)
    else:
        t = 1.0 / (x * x)
        return -x * (1.0 + t * (1.0 - t * (2.0 - 10.0 * t))), t * (1.0 - t * (6.0 - 50.0 * t))
    return shift, 1.0 - shift * (shift + x)


def within(x: float, margin: float) -> tuple[float, float]:
    """Condition N(x, 1) on being within `margin` of 0: the shift, and the remaining variance.

    The shift has the sign of -x. The margin must be positive.
    """
    distance = -x if x < 0.0 else x
    if distance > _TAIL:
        distance = _TAIL  # beyond this, all draws are equally unlikely in doubles
    near, far = margin - distance, -margin - distance
    if near > -0.7:
        left = cdf(near) - cdf(far)
        at_near, at_far = pdf(near), pdf(far)
    else:
        # Both ends lie in one tail: everything is divided by the density at the near end.
        at_near, at_far = 1.0, exp(-2.0 * margin * distance)
        left = _erfcx(-near / _SQRT_2) - at_far * _erfcx(-far / _SQRT_2)
        left /= _SQRT_2_OVER_PI
    shift = (at_near - at_far) / left
    rest = 1.0 - (shift * shift + (near * at_near - far * at_far) / left)
    return (shift if x < 0.0 else -shift), rest
