r"""Gaussian coordinates and the levels of their losses, to twice the usual digits.

In the exponent ``K(t) - t epsilon`` of an inversion, terms of size 1e12 cancel to something of order one. So each
coordinate's cumulant function is split at a *level*, ``K(t) = t level + (what stays of order one)``, and the levels are
summed with epsilon as pairs of floats. Coordinate j is ``P: N(m, v)`` against ``Q: N(0, 1)``, ``nu = v - 1``. Levels:

* ``kl = (m^2 + nu - log v)/2``, the mean of the loss under P;
* ``edge = -(log v + m^2/nu)/2``, the largest loss where nu < 0 and the smallest where nu > 0.

Exchanged, P and Q have ``nu -> -nu/v``, ``m^2 -> m^2/v`` and ``edge -> -edge``. A row of ``levels`` holds kl, the kl of
the exchanged coordinate and the edge, each as a pair.
"""

import math

from perinstance.numerics.compilation import kernel
from perinstance.numerics.double_double import log1p_pair, over, plus, root, times, two_product, two_sum
from perinstance.numerics.normal_tails import excess_of_log
from perinstance.numerics.rounding import LEAST_PAIR, ONE_DIMENSION


@kernel
def log_pair(nu, nu_low, v, v_low):
    """Return ``log(1 + nu)`` as a pair."""
    if nu >= 0.0:
        high, low = log1p_pair(nu)
        return high, low + nu_low / v
    back, back_low = over(-nu, -nu_low, v, v_low)
    high, low = log1p_pair(back)
    return -high, -(low + back_low * v)


@kernel
def fill_levels(nu, nu_low, v, v_low, m2, m2_low, levels):
    """Fill the levels of every coordinate of every person."""
    for i in range(nu.shape[0]):
        for j in range(nu.shape[1]):
            n, n_low, u, u_low = nu[i, j], nu_low[i, j], v[i, j], v_low[i, j]
            m, m_low = 0.5 * m2[i, j], 0.5 * m2_low[i, j]
            out = levels[i, j]
            out[0], out[1] = plus(m, m_low, 0.5 * excess_of_log(n, u), 0.0)
            m_back, m_back_low = over(m, m_low, u, u_low)
            out[2], out[3] = plus(m_back, m_back_low, 0.5 * excess_of_log(-n / u, 1.0 / u), 0.0)
            out[4], out[5] = 0.0, 0.0
            if n != 0.0:
                log, log_low = log_pair(n, n_low, u, u_low)
                ratio, ratio_low = over(m, m_low, n, n_low)
                out[4], out[5] = plus(-0.5 * log, -0.5 * log_low, -ratio, -ratio_low)


@kernel
def posterior_coordinate(mu, rho, m2, m2_low):
    """Fill ``m^2 = rho^2 mu/(1 + mu)``; nu is mu itself."""
    for i in range(mu.size):
        a, a_low = two_sum(1.0, mu[i])
        share, share_low = over(mu[i], 0.0, a, a_low)
        square, square_low = two_product(rho[i], rho[i])
        m2[i], m2_low[i] = times(square, square_low, share, share_low)


@kernel
def objective_plane(mu, r, x_squared, v_squared, out):
    """Fill the two coordinates of objective perturbation (``objective.py``), the larger variance first.

    ``out`` holds nu, v and m^2, each followed by its low part.
    """
    nu, nu_low, v, v_low, m2, m2_low = out[0], out[1], out[2], out[3], out[4], out[5]
    for i in range(mu.size):
        mu_i = mu[i]
        x, x_low = root(x_squared[i], 0.0)
        b, b_low = root(v_squared[i], 0.0)
        xv, xv_low = times(x, x_low, b, b_low)
        m, m_low = times(r[i], 0.0, x, x_low)
        square, square_low = times(m, m_low, m, m_low)
        w2, w2_low = 0.0, 0.0
        if xv > mu_i * (1.0 + ONE_DIMENSION):  # what rounding leaves of w in one dimension is not a second coordinate
            less, less_low = plus(xv, xv_low, -mu_i, 0.0)
            more, more_low = plus(xv, xv_low, mu_i, 0.0)
            w2, w2_low = times(less, less_low, more, more_low)
        two, two_low = two_sum(2.0, mu_i)
        base, base_low = times(mu_i, 0.0, two, two_low)
        trace, trace_low = plus(base, base_low, w2, w2_low)
        if xv < LEAST_PAIR:
            w = math.sqrt(less) * math.sqrt(more) if w2 > 0.0 or xv > mu_i * (1.0 + ONE_DIMENSION) else 0.0
            high, high_low = 0.5 * (trace + math.hypot(trace, 2.0 * w)), 0.0
            low, low_low = (-w * (w / high), 0.0) if high > 0.0 else (0.0, 0.0)
        else:
            disc, disc_low = times(trace, trace_low, trace, trace_low)
            disc, disc_low = plus(disc, disc_low, 4.0 * w2, 4.0 * w2_low)
            disc, disc_low = root(disc, disc_low)
            high, high_low = plus(0.5 * trace, 0.5 * trace_low, 0.5 * disc, 0.5 * disc_low)
            low, low_low = over(-w2, -w2_low, high, high_low) if w2 > 0.0 else (0.0, 0.0)
        nu[i, 0], nu_low[i, 0], nu[i, 1], nu_low[i, 1] = high, high_low, low, low_low
        top, top_low = two_sum(1.0, high)
        top, top_low = two_sum(top, top_low + high_low)
        v[i, 0], v_low[i, 0] = top, top_low
        a, a_low = two_sum(1.0, mu_i)
        a2, a2_low = times(a, a_low, a, a_low)
        v[i, 1], v_low[i, 1] = over(a2, a2_low, top, top_low)
        # the shift lies along (high, w) and across: m^2/(1 + q) and m^2 q/(1 + q), q = w^2/high^2 = -low/high
        q, q_low = over(-low, -low_low, high, high_low) if high > 0.0 else (0.0, 0.0)
        whole, whole_low = plus(1.0, 0.0, q, q_low)
        m2[i, 0], m2_low[i, 0] = over(square, square_low, whole, whole_low)
        across, across_low = times(square, square_low, q, q_low)
        m2[i, 1], m2_low[i, 1] = over(across, across_low, whole, whole_low)


@kernel
def square_shifts(m, m2, m2_low):
    """Fill ``m^2`` of every coordinate as a pair."""
    for i in range(m.shape[0]):
        for j in range(m.shape[1]):
            m2[i, j], m2_low[i, j] = two_product(m[i, j], m[i, j])


@kernel
def exchange(nu, nu_low, v, m2, m2_low, out):
    """Fill nu, its low part, v, m^2 and its low part with those of the exchanged coordinates.

    ``-nu/v``, ``1/v`` and ``m^2/v``.
    """
    for i in range(nu.shape[0]):
        for j in range(nu.shape[1]):
            u, u_low = plus(1.0, 0.0, nu[i, j], nu_low[i, j])
            out[0, i, j], out[1, i, j] = over(-nu[i, j], -nu_low[i, j], u, u_low)
            out[2, i, j] = 1.0 / v[i, j]
            out[3, i, j], out[4, i, j] = over(m2[i, j], m2_low[i, j], u, u_low)
