"""What a statistician reads: coefficients with standard errors, intervals, p-values, and what part of it is privacy.

The names are those of statsmodels. Everything is computed from published numbers, so it costs no privacy and works
from the model file alone. The interval belongs to the unshrunk estimate, which stands beside the published coefficient:
a shrunk one has a bias that nobody knows, so no width around it is valid.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from perinstance.checked_numbers import got, is_number
from perinstance.errors import InvalidInput
from perinstance.inference.equation import Estimated
from perinstance.numerics.array_types import Floats

About: TypeAlias = Literal["population", "table"]
LEVEL = 0.95  # of an interval, and the one that standard errors of partly hidden coefficients are made for
HIDDEN_SHARE = 0.2  # part of a half width that hidden directions may make; beyond, there is no interval
ABOUT: dict[str, str] = {
    "population": "people like these (sampling and privacy noise)",
    "table": "this table: what the fit without noise says (privacy noise alone)",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Inference:
    """The coefficients of a published model and how well they are known; the intercept, if any, is the last.

    Every number is public: it follows from what was published. An infinite standard error says that privacy noise
    hides the coefficient; its interval is the whole line and its p-value 1.
    """

    names: tuple[str, ...]
    published: Floats  #: the coefficients as they were published, shrunk or not
    solved: Estimated
    about: About
    method: str  #: of publishing
    promise: tuple[float, float] | None
    notes: tuple[str, ...]  #: sentences: what is assumed, what is hidden

    @property
    def params(self) -> Floats:
        """The estimates that the intervals belong to: not shrunk."""
        return self.solved.estimate

    @property
    def bse(self) -> Floats:
        """Standard errors; infinite where the noise hides a coefficient."""
        z = _level(LEVEL)
        return _half_widths(self.solved, z) / z

    @property
    def resolved(self) -> NDArray[np.bool_]:
        """Whether each coefficient has an interval."""
        return np.isfinite(self.bse)

    @property
    def zvalues(self) -> Floats:
        """Estimates in standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            z = self.params / self.bse
        return np.where(np.isnan(z), 0.0, z)  # a number that is known exactly and is zero is none away from zero

    tvalues = zvalues

    @property
    def pvalues(self) -> Floats:
        """Two-sided, against a coefficient of zero; for one question that was asked in advance."""
        tails: Floats = 2.0 * ndtr(-np.abs(self.zvalues))
        return tails

    @property
    def pvalues_adjusted(self) -> Floats:
        """P-values times the number of coefficients (Bonferroni): for whoever looks for the small ones."""
        return np.minimum(self.pvalues * len(self.names), 1.0)

    @property
    def privacy_share(self) -> Floats:
        """The part of each variance that is privacy noise: large, more epsilon helps; small, more people do."""
        variance = np.diag(self.solved.covariance)
        share = np.diag(self.solved.privacy) / np.where(variance > 0.0, variance, 1.0)
        return np.where(self.resolved, share, 1.0)

    def conf_int(self, level: float = LEVEL) -> Floats:
        """Return lower and upper ends, one row for each coefficient.

        Parameters
        ----------
        level
            The coverage, 0.95 for 95%; it is not statsmodels' ``alpha``.
        """
        half = _half_widths(self.solved, _level(level))
        return np.column_stack([self.params - half, self.params + half])

    def cov_params(self) -> Floats:
        """Return the covariance of the estimates; a hidden coefficient has an infinite variance."""
        covariance = np.where(np.outer(self.resolved, self.resolved), self.solved.covariance, 0.0)
        covariance[np.diag_indices_from(covariance)] = self.bse**2
        return covariance

    def t_test(self, contrast: str | Mapping[str, float] | ArrayLike, level: float = LEVEL) -> Inference:
        """Return the inference of linear combinations of coefficients.

        Parameters
        ----------
        contrast
            The name of a coefficient; a weight for each name, as in ``{"dose": 1, "age": -1}``; or an array of weights,
            one row for each combination, in the order of ``names``.
        level
            Checked here, so that a call in statsmodels' style fails early; intervals are asked for by ``conf_int``.
        """
        _level(level)
        weights, names = self._contrast(contrast)
        published = weights @ self.published
        return Inference(names, published, self.solved.mapped(weights), self.about, self.method, self.promise, ())

    def predict_interval(self, X: ArrayLike, level: float = LEVEL) -> Floats:
        """Return estimate, lower and upper end of the expected value (of a classifier: the log odds) for each row.

        ``X`` has one column for each coefficient but the intercept. The interval is that of the mean, not of one
        person's outcome.
        """
        rows = np.atleast_2d(np.asarray(X, dtype=np.float64))
        slopes = len(self.names) - (self.names[-1] == "intercept")
        if rows.ndim != 2 or rows.shape[1] != slopes:
            raise InvalidInput(f"X must have {slopes} columns, one for each coefficient, got shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise InvalidInput("X must be finite numbers, got a missing or infinite cell; leave those rows out")
        weights = np.column_stack([rows, np.ones((len(rows), len(self.names) - slopes))])
        found = [self.solved.mapped(one[None, :]) for one in weights]
        z = _level(level)
        half = np.array([_half_widths(one, z)[0] for one in found])
        center = weights @ self.params
        return np.column_stack([center, center - half, center + half])

    def to_dict(self, level: float = LEVEL) -> dict[str, list[Any]]:
        """Return columns by name: what ``frame`` and polars are made of."""
        ends = self.conf_int(level)
        columns = {
            "published": self.published,
            "estimate": self.params,
            "std_err": self.bse,
            "z": self.zvalues,
            "p": self.pvalues,
            "low": ends[:, 0],
            "high": ends[:, 1],
            "privacy_share": self.privacy_share,
            "resolved": self.resolved,
        }
        return {"name": list(self.names), **{name: column.tolist() for name, column in columns.items()}}

    def frame(self, level: float = LEVEL) -> Any:
        """Return the table as a pandas frame, one row for each coefficient."""
        import pandas as pd

        return pd.DataFrame(self.to_dict(level)).set_index("name")

    def summary(self, level: float = LEVEL) -> str:
        """Return the table as text, in the form of statsmodels; nothing is hidden and nothing starred."""
        _level(level)
        table, wide = self.to_dict(level), max(12, *(len(name) for name in self.names))
        ends = f"[{(1 - level) / 2:.3g}", f"{(1 + level) / 2:.3g}]"
        head = ["published", "estimate", "std err", "z", "P>|z|", *ends, "privacy"]
        lines = [" " * wide + "".join(f"{word:>12}" for word in head)]
        for i, name in enumerate(self.names):
            numbers = [table[key][i] for key in ("published", "estimate", "std_err")]
            cells = [f"{x:.4g}" for x in numbers] + [f"{table['z'][i]:.2f}", f"{table['p'][i]:.3f}"]
            cells += [f"{table['low'][i]:.4g}", f"{table['high'][i]:.4g}", f"{table['privacy_share'][i]:.0%}"]
            lines.append(f"{name:<{wide}}" + "".join(f"{cell:>12}" for cell in cells))
        rule = "=" * len(lines[0])
        lines = [rule, self.heading(), rule, *lines, rule]
        lines.append("'published' may be shrunk; interval and p-value belong to 'estimate', which is not.")
        lines.append("'privacy' is the part of the variance that privacy noise makes.")
        return "\n".join([*lines, *self.notes])

    def heading(self) -> str:
        """Return what published the coefficients, what it promises, and the question."""
        promised = "" if self.promise is None else f", epsilon = {self.promise[0]:g}, delta = {self.promise[1]:g}"
        return f"{self.method}{promised}; about {ABOUT[self.about]}"

    def to_html(self, path: str | os.PathLike[str], level: float = LEVEL) -> Path:
        """Write a page with a forest plot: estimates, intervals, and the share of privacy noise."""
        from perinstance.report.forest_plot import page

        _level(level)
        Path(path).write_text(page(self, level), encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        """Show the forest plot and the table in a notebook."""
        from perinstance.report.forest_plot import fragment

        return fragment(self)

    def _contrast(self, contrast: Any) -> tuple[Floats, tuple[str, ...]]:
        if isinstance(contrast, str):
            contrast = {contrast: 1.0}
        if isinstance(contrast, Mapping):
            unknown = [name for name in contrast if name not in self.names]
            if unknown:
                raise InvalidInput(f"no coefficient is named {unknown[0]!r}; there are {', '.join(self.names)}")
            words = " + ".join(f"{weight:g} {name}" for name, weight in contrast.items())
            weights = np.array([[float(contrast.get(name, 0.0)) for name in self.names]])
            return weights, (words if len(contrast) > 1 else next(iter(contrast)),)
        weights = np.atleast_2d(np.asarray(contrast, dtype=np.float64))
        if weights.ndim != 2 or weights.shape[1] != len(self.names) or not np.isfinite(weights).all():
            raise InvalidInput(f"a contrast is {len(self.names)} finite weights, one for each of {self.names}")
        return weights, tuple(f"c{i}" for i in range(len(weights)))


def checked_about(about: Any) -> About:
    """Validate the question."""
    if about not in get_args(About):
        raise InvalidInput(f"about must be 'population' or 'table', got {got(about)}; try about='table'")
    return about


def _level(level: Any) -> float:
    """Validate a coverage and return its normal quantile."""
    if not is_number(level) or not 0.5 <= level < 1.0:
        raise InvalidInput(f"level is the coverage of an interval, from 0.5 to below 1, got {got(level)}; try 0.95")
    return float(ndtri(0.5 + float(level) / 2.0))


def _half_widths(solved: Estimated, z: float) -> Floats:
    own = z * np.sqrt(np.maximum(np.diag(solved.covariance), 0.0))
    off = np.sqrt((solved.hidden**2).sum(axis=1))
    half = own + off
    return np.where(off > HIDDEN_SHARE * half, np.inf, half)
