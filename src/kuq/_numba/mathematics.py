"""Elementary functions without branches and calls, so that loops over them vectorise.

The usual mathematical library is called for one number at a time, which costs five to ten times
more. Coefficients are minimax polynomials found by the Remez algorithm in 40 to 70 digits with
mpmath, for the expressions and intervals named below; the error given with each is that of the
polynomial before rounding. NaN goes in and comes out, but not of logarithms.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types

from kuq._numba.compiling import emitted, inlined

_LOG2_E = math.log2(math.e)
#: log 2 in two parts; the first has so few digits that an integer times it is exact
_LOG2_HIGH = 0.6931471805598903
_LOG2_LOW = 5.497923018708371e-14
#: adding it rounds to an integer, which the lowest bits then hold
_ROUND = 6755399441055744.0


@emitted
def bits(context: Any, x: Any) -> Any:
    """The bits of a float as an integer."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


@emitted
def from_bits(context: Any, x: Any) -> Any:
    """The float that has these bits."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


@inlined
def _exponential_parts(x):
    """(k + _ROUND, expm1(r)) with x = k log 2 + r, |r| ≤ ½ log 2.

    expm1(r) = r + r² q(r), q of degree 9 on ±0.347; relative error 2e−17.
    """
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    q = 2.505685548247476e-08
    q = q * r + 2.7625458666646105e-07
    q = q * r + 2.755739712918424e-06
    q = q * r + 2.4801506992648715e-05
    q = q * r + 0.00019841269731657189
    q = q * r + 0.0013888888929825425
    q = q * r + 0.008333333333383134
    q = q * r + 0.041666666666583564
    q = q * r + 0.166666666666666
    q = q * r + 0.5000000000000004
    return shifted, r * r * q + r


@inlined
def exp(x):
    """exp(x); zero below −708, where results would lose digits. Relative error ≤ 3e−16."""
    bounded = x
    if bounded < -708.0:
        bounded = -708.0
    if bounded > 709.79:
        bounded = 709.79
    shifted, rest = _exponential_parts(bounded)
    # Half of 2^k, as 2^1024 is no number though the result may be.
    value = (2.0 + 2.0 * rest) * from_bits((bits(shifted) + 1022) << 52)
    if x < -708.0:
        value = 0.0
    if x > 709.782712893384:
        value = math.inf
    return value


@inlined
def expm1_negative(x):
    """expm1(x) for x ≤ 0; relative error ≤ 4e−16."""
    if x < -40.0:
        x = -40.0
    shifted, rest = _exponential_parts(x)
    power = from_bits((bits(shifted) + 1023) << 52)
    return power * rest + (power - 1.0)


@inlined
def complementary(x):
    """1 − exp(x²) erfc(x) for x ≥ 0, with relative errors up to 1e−16·exp(x²).

    It is u times a polynomial of degree 13 in u = x/(x + 4), fitted on 0 ≤ x ≤ 6 so that
    expm1(−x²)/√π + x·erf(x) has the relative error 8e−17; exp(−x²) is a factor wherever it is used.
    """
    u = x / (x + 4.0)
    p = 0.06400963410072251
    p = p * u + -0.14568163446487983
    p = p * u + -0.05884003877971026
    p = p * u + 0.40696525312534065
    p = p * u + 0.11978651803441137
    p = p * u + -1.5962339381483548
    p = p * u + 1.0978978219442008
    p = p * u + 5.078355355867088
    p = p * u + -16.097683857803947
    p = p * u + 25.501321406280386
    p = p * u + -27.053949945396745
    p = p * u + 20.657694464488237
    p = p * u + -11.486483331618135
    p = p * u + 4.51351666838205
    return p * u


@inlined
def erfcx(x):
    """exp(x²) erfc(x) for x ≥ 0; relative error ≤ 6e−16.

    (1 + 2x) times it is a polynomial of degree 22 in y = (x − 3.75)/(x + 3.75), fitted for all
    x ≥ 0 at Chebyshev nodes; relative error 1.1e−16.
    """
    y = (x - 3.75) / (x + 3.75)
    p = -2.6231473239102288e-09
    p = p * y + -1.955150889997112e-09
    p = p * y + 3.1979482072270564e-08
    p = p * y + 1.879090137514576e-08
    p = p * y + -2.485717615561178e-07
    p = p * y + -5.0844827415100166e-08
    p = p * y + 1.74198280957793e-06
    p = p * y + -9.79262355935745e-07
    p = p * y + -1.1438048558276999e-05
    p = p * y + 2.238756555287076e-05
    p = p * y + 5.164653001243621e-05
    p = p * y + -0.0002901553523840272
    p = p * y + 0.00029371437795578086
    p = p * y + 0.0017556261651744186
    p = p * y + -0.009746579683247044
    p = p * y + 0.02836227737211513
    p = p * y + -0.0586933985766515
    p = p * y + 0.09230432116428086
    p = p * y + -0.10880393014244448
    p = p * y + 0.08227673848999507
    p = p * y + 0.0035854154854790227
    p = p * y + -0.14024059858554525
    p = p * y + 1.2375126308378275
    return p / (1.0 + 2.0 * x)


@inlined
def erf_and_fall(x):
    """(erf(x), 1 − exp(−x²)) for x ≥ 0, both relatively accurate to 4e−16."""
    if x > 8.0:
        x = 8.0
    fall = -expm1_negative(-(x * x))
    v = complementary(x)
    # 1 − exp(−x²)(1 − v), written as a sum of terms ≥ 0.
    return fall * (1.0 - v) + v, fall


@inlined
def normal_cdf(z):
    """Φ(z); absolute error ≤ 3e−16, exactly 0 or 1 beyond 8.3 standard deviations."""
    x = abs(z) * math.sqrt(0.5)
    if x > 8.0:
        x = 8.0
    shifted, rest = _exponential_parts(-(x * x))
    tail = (rest + 1.0) * from_bits((bits(shifted) + 1023) << 52)
    tail = 0.5 * tail * (1.0 - complementary(x))
    if abs(z) > 8.3:
        tail = 0.0
    return 1.0 - tail if z > 0.0 else tail


@inlined
def _log_parts(x):
    """(e, m) with x = m·2^e, √½ ≤ m < √2, e as a float."""
    # Counting from √½ puts the exponent up for mantissas above √2.
    b = bits(x) - 0x3FE6A09E667F3BCD
    # Integers to floats without a conversion, which AVX2 does not have: 2^52 + e + 2^11.
    biased = ((b >> 52) + 2048) & 0xFFF
    e = from_bits(biased | 0x4330000000000000) - (4503599627370496.0 + 2048.0)
    m = from_bits((b & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD)
    return e, m


@inlined
def _log_near_one(f):
    """log(1 + f) for √½ ≤ 1 + f ≤ √2: 2s + s³ p(s²), s = f/(2 + f).

    p of degree 6 on 0 ≤ s² ≤ 0.0295; relative error 2e−18.
    """
    s = f / (2.0 + f)
    y = s * s
    p = 0.14737510175809485
    p = p * y + 0.15320235098245621
    p = p * y + 0.1818330664911578
    p = p * y + 0.2222220390463194
    p = p * y + 0.28571428685853895
    p = p * y + 0.3999999999969607
    p = p * y + 0.6666666666666686
    return s * y * p + 2.0 * s


@inlined
def log(x):
    """log(x) for positive x that is finite and not denormal; relative error ≤ 5e−16."""
    e, m = _log_parts(x)
    return e * _LOG2_HIGH + (_log_near_one(m - 1.0) + e * _LOG2_LOW)


@inlined
def log1p(x):
    """log(1 + x) for finite x ≥ −1 + 1e−300; relative error ≤ 5e−16."""
    e, m = _log_parts(1.0 + x)
    f = m - 1.0
    if e == 0.0:
        f = x
    return e * _LOG2_HIGH + (_log_near_one(f) + e * _LOG2_LOW)


@inlined
def cos_sin(x):
    """(cos(x), sin(x)) for |x| ≤ 1e6; absolute error ≤ 2e−16.

    On |r| ≤ π/4: sin(r) = r + r³ p(r²), cos(r) = 1 − r²/2 + r⁴ q(r²), both of degree 5; errors
    4e−18 and 1e−19.
    """
    shifted = x * (2.0 / math.pi) + _ROUND
    k = shifted - _ROUND
    # π/2 in three parts, of which the first two times k are exact.
    r = x - k * 1.570796325802803
    r = r - k * 9.920935791635221e-10
    r = r - k * 5.170182981794105e-19
    y = r * r
    p = 1.58984339905317e-10
    p = p * y + -2.505079029361497e-08
    p = p * y + 2.755731393034892e-06
    p = p * y + -0.00019841269830627142
    p = p * y + 0.008333333333323686
    p = p * y + -0.16666666666666638
    s = p * y * r + r
    q = -1.1368633819026438e-11
    q = q * y + 2.087590716615728e-09
    q = q * y + -2.755731579239206e-07
    q = q * y + 2.480158729481524e-05
    q = q * y + -0.0013888888888883308
    q = q * y + 0.04166666666666666
    c = y * y * q + (1.0 - 0.5 * y)
    quadrant = bits(shifted)
    odd = (quadrant & 1) != 0
    cosine = s if odd else c
    sine = c if odd else s
    # The sign of the cosine changes in quadrants 1 and 2, that of the sine in 2 and 3.
    cosine = from_bits(bits(cosine) ^ (((quadrant + 1) & 2) << 62))
    sine = from_bits(bits(sine) ^ ((quadrant & 2) << 62))
    return cosine, sine
