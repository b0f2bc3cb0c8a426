"""How much noise keeps a loss: ``calibrate`` finds the smallest, ``epsilon`` is the one line of noisy training.

A loss falls with the noise, so the smallest noise is found by halving; what is returned has been asked itself, and
keeps the loss. Over bounds it is a function of public declarations, and a promise. Over a table it is a function of
everybody's rows: publishing with that noise tells something of them that no loss here counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import clone

from perinstance.analysis import worst_case_dp
from perinstance.auditing.audit_call import audit
from perinstance.checked_numbers import is_number, one_of, positive, probability, whole_number
from perinstance.errors import InvalidInput
from perinstance.pairs import SampledGaussian
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable

TOLERANCE = 1e-3  # relative, of the noise: changes the width
FARTHEST = 2.0**60  # noise is looked for so many times above and below where the release has it
CHOSEN_BY_TABLE = (
    "Confidential: this noise was chosen by looking at everybody's rows. Publishing it, or with it, is a release of "
    "its own, which no loss here counts; choose over bounds, or on other people's data, where that matters."
)


@dataclass(frozen=True, slots=True)
class Calibrated(ShownAsTable):
    """A release with the smallest noise that keeps a loss."""

    release: Any
    parameter: str  #: the one that was changed
    value: float
    epsilon: float  #: what is lost at that noise, at most
    delta: float
    kind: Kind
    over: Literal["bounds", "table"]
    note: str  #: what it is worth


def epsilon(*, noise_multiplier: float, rate: float, steps: int, delta: float = 1e-6) -> float:
    """Return what noisy training (DP-SGD) costs anybody, in any data set: never below the truth.

    Parameters
    ----------
    noise_multiplier
        The noise's standard deviation over the clip.
    rate
        The probability of being in a step's sample: Poisson sampling, not shuffled batches.
    steps
        How many steps were taken.
    delta
        Where epsilon holds.

    Examples
    --------
    >>> from perinstance.auditing import epsilon
    >>> round(epsilon(noise_multiplier=1.1, rate=0.01, steps=1000, delta=1e-5), 2)
    1.52
    """
    sigma, delta = positive("noise_multiplier", noise_multiplier), probability("delta", delta)
    if not is_number(rate) or not 0 < rate <= 1:
        raise InvalidInput("rate must lie in (0, 1]: the probability of being sampled; try rate=0.01")
    count = whole_number("steps", steps, 1, 2**40, 1000)
    return float(SampledGaussian(float(rate), np.nextafter(1.0 / sigma, np.inf), count).epsilon(delta)[0])


def calibrate(
    release: Any,
    X: Any = None,
    y: Any = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    over: Literal["bounds", "table"] = "bounds",
    x_bound: float | None = None,
    y_bound: float | None = None,
    people: int | None = None,
    n_features: int | None = None,
    **columns: Any,
) -> Calibrated:
    """Return the release with the smallest noise at which nobody loses more than ``epsilon`` at ``delta``.

    Parameters
    ----------
    release
        ``OutputPerturbation``, ``ObjectivePerturbation`` or ``NoisyMean`` (their ``scale`` is sought), or
        ``PosteriorSample`` (``gamma``). Releases that promise have an epsilon of their own.
    X, y
        The table, for ``over="table"``; ``columns`` (``target``, ``ids``, ``features``, ``recipe``) as for ``audit``.
    over
        ``"bounds"``: nobody within declared bounds, in any table of at most ``people`` people; a promise. ``"table"``:
        nobody in this table; confidential, because choosing by it is itself a release.
    x_bound, y_bound, people, n_features
        Declared, for ``over="bounds"``.

    Examples
    --------
    >>> import perinstance as pi
    >>> from sklearn.linear_model import Ridge
    >>> release = pi.OutputPerturbation(Ridge(alpha=10.0, fit_intercept=False), scale=1.0)
    >>> found = pi.calibrate(release, epsilon=1.0, x_bound=1.0, y_bound=1.0, people=1000, n_features=5)
    >>> found.parameter, found.epsilon <= 1.0, found.over
    ('scale', True, 'bounds')
    """
    wanted, delta = positive("epsilon", epsilon), probability("delta", delta)
    parameters = release.get_params(deep=False) if hasattr(release, "get_params") else {}
    name = next((one for one in ("scale", "gamma") if is_number(parameters.get(one))), None)
    if name is None or is_number(parameters.get("epsilon")):
        raise InvalidInput(
            "calibrate changes the scale (or gamma) of a release that promises nothing by itself; a release with an "
            "epsilon of its own, such as AdaSSP, is calibrated already"
        )
    if one_of("over", over, ("bounds", "table")) == "table":
        if X is None:
            raise InvalidInput('over="table" needs the table; pass X and y, or over="bounds" with declared bounds')

        def ask(release: Any) -> tuple[float, Kind]:
            found = audit(release, X, y, delta=delta, **columns)
            if found.pairs.kind == "estimate":
                raise InvalidInput("losses of this release are estimates, which bound nothing; choose over bounds")
            return float(found.losses.max()), found.pairs.kind

    else:
        if X is not None or y is not None or columns:
            raise InvalidInput('over="bounds" looks at no table; leave it out, or pass over="table"')
        if x_bound is None or y_bound is None or n_features is None:
            raise InvalidInput('over="bounds" needs x_bound, y_bound and n_features (and people, where loss grows)')
        bounds: dict[str, Any] = {"x_bound": x_bound, "y_bound": y_bound, "n": people, "d": n_features}

        def ask(release: Any) -> tuple[float, Kind]:
            found = worst_case_dp(release, delta, **bounds)
            return float(found.epsilon), found.kind

    value, lost, kind = _smallest(release, name, float(parameters[name]), wanted, ask)
    note = CHOSEN_BY_TABLE if over == "table" else "A promise to everybody within the declared bounds, in any table."
    return Calibrated(clone(release).set_params(**{name: value}), name, value, lost, delta, kind, over, note)


def _smallest(
    release: Any, name: str, start: float, wanted: float, ask: Callable[[Any], tuple[float, Kind]]
) -> tuple[float, float, Kind]:
    """Halve between a value whose loss is too large and one whose loss was found to be at most what is wanted."""
    more = 4.0 if name == "scale" else 0.25  # towards more noise

    def at(value: float) -> tuple[float, Kind]:
        return ask(clone(release).set_params(**{name: value}))

    good, (lost, kind) = start, at(start)
    while lost > wanted:
        good *= more
        lost, kind = at(good)
        if not 1 / FARTHEST < good / start < FARTHEST:
            raise InvalidInput(
                f"no {name} keeps epsilon={wanted:g} here: the loss stays above it, because of a row that holds up a "
                "direction alone, or of bounds that allow one; raise alpha, narrow the bounds or ask for more epsilon"
            )
    bad = good / more
    while at(bad)[0] <= wanted and 1 / FARTHEST < bad / start < FARTHEST:
        good, bad = bad, bad / more
    lost, kind = at(good)
    while abs(good / bad - 1.0) > TOLERANCE:
        middle = float(np.sqrt(good * bad))
        now, its_kind = at(middle)
        if now <= wanted:
            good, lost, kind = middle, now, its_kind
        else:
            bad = middle
    return good, lost, kind
