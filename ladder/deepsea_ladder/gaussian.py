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
"""Beyond this distance a series for the tail is better than a difference of large numbers."""


def exp(x: float) -> float:
    """Return e to the power of x, for x up to 700; 0 below -745.

    x is split into k * ln(2) + r with a whole number k and a small remainder r, so that the result
    is 2**k * exp(r).
    """
    if x < -745.0:
        return 0.0  # the true value is smaller than any double
    half = 0.5 if x > 0.0 else -0.5
    k = int(x * _LOG2_E + half)  # rounded to the nearest whole number
    # ln(2) in two parts, since the product with the first one is exact.
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    # exp(r) by the diagonal Padé approximant of order 6: its coefficients are whole numbers, and
    # its error is below 1e-18 for such a small r.
    t = r * r
    even = 665280.0 + t * (75600.0 + t * (840.0 + t))
    odd = r * (332640.0 + t * (10080.0 + t * 42.0))
    return ldexp((even + odd) / (even - odd), k)


def _erf_small(x: float) -> float:
    """Return the error function of x, for |x| up to 0.46875.

    It is a quotient of two polynomials in x², with the coefficients of W. J. Cody, Math. Comp. 23
    (1969), each computed by Horner's rule.
    """
    t = x * x
    numerator = 1.85777706184603153e-1
    numerator = numerator * t + 3.16112374387056560e0
    numerator = numerator * t + 1.13864154151050156e2
    numerator = numerator * t + 3.77485237685302021e2
    numerator = numerator * t + 3.20937758913846947e3
    denominator = t + 2.36012909523441209e1
    denominator = denominator * t + 2.44024637934444173e2
    denominator = denominator * t + 1.28261652607737228e3
    denominator = denominator * t + 2.84423683343917062e3
    return x * numerator / denominator


def _erfcx(x: float) -> float:
    """Return the scaled complement of the error function, exp(x * x) * erfc(x), for x >= 0.46875.

    It stays of moderate size where erfc(x) itself vanishes. W. J. Cody's rational approximations,
    Math. Comp. 23 (1969): one up to 4, and one in 1 / x² beyond it.
    """
    if x <= 4.0:
        numerator = 2.15311535474403846e-8
        numerator = numerator * x + 5.64188496988670089e-1
        numerator = numerator * x + 8.88314979438837594e0
        numerator = numerator * x + 6.61191906371416295e1
        numerator = numerator * x + 2.98635138197400131e2
        numerator = numerator * x + 8.81952221241769090e2
        numerator = numerator * x + 1.71204761263407058e3
        numerator = numerator * x + 2.05107837782607147e3
        numerator = numerator * x + 1.23033935479799725e3
        denominator = x + 1.57449261107098347e1
        denominator = denominator * x + 1.17693950891312499e2
        denominator = denominator * x + 5.37181101862009858e2
        denominator = denominator * x + 1.62138957456669019e3
        denominator = denominator * x + 3.29079923573345963e3
        denominator = denominator * x + 4.36261909014324716e3
        denominator = denominator * x + 3.43936767414372164e3
        denominator = denominator * x + 1.23033935480374942e3
        return numerator / denominator
    t = 1.0 / (x * x)
    numerator = 1.63153871373020978e-2
    numerator = numerator * t + 3.05326634961232344e-1
    numerator = numerator * t + 3.60344899949804439e-1
    numerator = numerator * t + 1.25781726111229246e-1
    numerator = numerator * t + 1.60837851487422766e-2
    numerator = numerator * t + 6.58749161529837803e-4
    denominator = t + 2.56852019228982242e0
    denominator = denominator * t + 1.87295284992346725e0
    denominator = denominator * t + 5.27905102951428412e-1
    denominator = denominator * t + 6.05183413124413191e-2
    denominator = denominator * t + 2.33520497626869185e-3
    return (_ONE_OVER_SQRT_PI - t * numerator / denominator) / x


def pdf(x: float) -> float:
    """Return the density of the standard normal distribution at x."""
    return _ONE_OVER_SQRT_2PI * exp(-0.5 * (x * x))


def cdf(x: float) -> float:
    """Return the probability that a standard normal variable is at most x."""
    z = x / _SQRT_2
    # The tails are computed by `_erfcx`, since 0.5 + 0.5 * erf(z) would lose their digits.
    if z < -0.46875:
        return 0.5 * _erfcx(-z) * exp(-(z * z))
    if z > 0.46875:
        return 1.0 - 0.5 * _erfcx(z) * exp(-(z * z))
    return 0.5 + 0.5 * _erf_small(z)


def quantile(p: float) -> float:
    """Return the x with `cdf(x) == p`, for p from 0.0001 to 0.9999.

    It halves an interval until no double lies inside, which is slow: meant for constants.
    """
    low, high = -5.0, 5.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return middle
        if cdf(middle) < p:
            low = middle
        else:
            high = middle


def condition_above_zero(x: float) -> tuple[float, float]:
    """Condition the normal distribution with mean x and variance 1 on a value above 0.

    Return by how much that shifts the mean, pdf(x) / cdf(x), and the new variance, which goes from
    1 towards 0 as x falls.
    """
    if x <= -_TAIL:
        # The first terms of both series in 1 / x²; the exact formulas cancel too many digits here.
        t = 1.0 / (x * x)
        shift = -x * (1.0 + t * (1.0 - t * (2.0 - 10.0 * t)))
        variance = t * (1.0 - t * (6.0 - 50.0 * t))
        return shift, variance
    if x > -0.6:
        shift = pdf(x) / cdf(x)
    else:
        # The same quotient without the factor exp(-x * x / 2) of both, which nears 0 here.
        scaled_tail = _erfcx(-x / _SQRT_2)
        shift = _SQRT_2_OVER_PI / scaled_tail
    variance = 1.0 - shift * (shift + x)
    return shift, variance


def condition_near_zero(x: float, margin: float) -> tuple[float, float]:
    """Condition the normal distribution with mean x and variance 1 on a value near 0.

    Return by how much that shifts the mean, towards 0, and the new variance.

    margin  the largest distance of the value from 0; above 0
    """
    distance = -x if x < 0.0 else x  # computed for x >= 0: the other side is its mirror image
    if distance > _TAIL:
        distance = _TAIL  # farther away, the probability is too small for a double in any case
    # The ends of the interval relative to the mean, the near one first.
    near = margin - distance
    far = -margin - distance
    if near > -0.7:
        probability = cdf(near) - cdf(far)
        density_near, density_far = pdf(near), pdf(far)
    else:
        # Both ends lie in one tail: everything is divided by the density at the near end.
        density_near, density_far = 1.0, exp(-2.0 * margin * distance)
        probability = _erfcx(-near / _SQRT_2) - density_far * _erfcx(-far / _SQRT_2)
        probability /= _SQRT_2_OVER_PI
    # The mean and the variance of a normal distribution that is cut off at both ends.
    shift = (density_near - density_far) / probability
    slope = (near * density_near - far * density_far) / probability
    variance = 1.0 - (shift * shift + slope)
    return (shift if x < 0.0 else -shift), variance
