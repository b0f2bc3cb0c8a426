"""Two general Gaussians: group privacy of a posterior sample, Laplace approximations of a posterior (MATH 1e)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, UNDERFLOWN
from perinstance.pairs.arguments import Direction, people_table, spread
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.kinds import Kind
from perinstance.pairs.posterior_sample import PosteriorSamplePair
from perinstance.pairs.sums.coordinates import LossCoordinates


class GeneralGaussian(ColumnPairs):
    """``P: N(m, diag(1 + nu))`` against ``Q: N(0, I)``: what two Gaussians are once Q is whitened and P diagonal.

    ``excess`` nu > -1 and ``shift`` m have one row per person and one column per coordinate; a coordinate of zeros
    changes nothing, so people of smaller dimension are padded with zeros. The loss is
    ``sum_j [x_j^2 - (x_j - m_j)^2/(1 + nu_j) - log(1 + nu_j)]/2``, a weighted sum of noncentral chi-squares.
    ``from_moments`` starts from means and covariances.

    Examples
    --------
    >>> import numpy as np
    >>> from perinstance.pairs import GeneralGaussian, PosteriorSamplePair
    >>> same = GeneralGaussian([[0.1]], [[10 * np.sqrt(0.1 / 1.1)]])
    >>> bool(np.isclose(same.epsilon(1e-6), PosteriorSamplePair([0.1], [10.0]).epsilon(1e-6), rtol=1e-9)[0])
    True
    """

    __slots__ = ("_excess", "_shift")
    FORMAT = ("gaussian", 1)
    one_number_each = False
    EXACT_UP_TO = MappingProxyType({"excess": 1e12, "shift": 1e12})
    _excess: Floats
    _shift: Floats
    excess = Column("The variance of P over that of Q, less one, in each coordinate.")
    shift = Column("The difference of the means in standard deviations of Q, in each coordinate.")

    def __init__(self, excess: ArrayLike, shift: ArrayLike, kind: Kind | ArrayLike = "exact") -> None:
        super().__init__(kind, excess=excess, shift=shift)
        self._bounded_only(1.0 / (1.0 + self._excess), self.EXACT_UP_TO["excess"])

    def _validated(self, columns: dict[str, ArrayLike]) -> dict[str, Floats]:
        """Return two tables of one shape, each variance positive."""
        tables = {name: people_table(name, values, "coordinate", signed=True) for name, values in columns.items()}
        excess, shift = tables["excess"], tables["shift"]
        if excess.shape != shift.shape:
            raise InvalidInput(
                f"excess and shift must have the same shape, got {excess.shape} and {shift.shape}; "
                "pass one row per person and one column per coordinate in each"
            )
        bad = ~(excess > -1.0).all(axis=1)
        if bad.any():
            raise InvalidInput(
                f"excess must be above -1 (a variance ratio less one), it is not for {int(bad.sum())} people, "
                f"the first at position {int(bad.argmax())}"
            )
        return tables

    @classmethod
    def from_moments(
        cls,
        mean_p: ArrayLike,
        cov_p: ArrayLike,
        mean_q: ArrayLike,
        cov_q: ArrayLike,
        kind: Kind | ArrayLike = "exact",
    ) -> GeneralGaussian:
        """Build the pairs from means (n, k) and covariances (n, k, k), P without the person and Q with them.

        With ``S_Q = R R'``, nu are the eigenvalues of ``R^-1 (S_P - S_Q) R^-T`` and m is the mean difference in
        their basis.
        """
        told = {"mean_p": mean_p, "cov_p": cov_p, "mean_q": mean_q, "cov_q": cov_q}
        given = [real_values(name, values) for name, values in told.items()]
        n, k = given[0].shape if given[0].ndim == 2 else (-1, -1)
        if [a.shape for a in given] != [(n, k), (n, k, k), (n, k), (n, k, k)]:
            raise InvalidInput(
                "means must have shape (n, k) and covariances (n, k, k), got "
                + ", ".join(str(a.shape) for a in given)
                + "; put one person in each row"
            )
        finite = np.logical_and.reduce([np.isfinite(a).reshape(n, -1).all(axis=1) for a in given])
        if not finite.all():
            raise InvalidInput(
                f"means and covariances must be finite, they are not for {int((~finite).sum())} people, "
                f"the first at position {int((~finite).argmax())}"
            )
        mean_p, cov_p, mean_q, cov_q = given
        R = _root(cov_q, "cov_q")
        _root(cov_p, "cov_p")
        half = np.linalg.solve(R, cov_p - cov_q)
        whitened: Any = _symmetric(np.linalg.solve(R, np.swapaxes(half, 1, 2)))
        nu, basis = np.linalg.eigh(whitened)
        m = np.einsum("nji,nj->ni", basis, np.linalg.solve(R, (mean_p - mean_q)[:, :, None])[:, :, 0])
        return cls(np.maximum(nu, np.nextafter(-1.0, 0.0)), m, kind)

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        """Whoever has one coordinate, of a larger variance, is a posterior sample, which has a closed form."""
        nu, m = self._excess.sum(axis=1), np.abs(self._shift).sum(axis=1)
        moved = ((self._excess != 0) | (self._shift != 0)).sum(axis=1)
        one = (moved == 1) & (nu > UNDERFLOWN) & np.isfinite(nu) & (direction != "with")
        if not one.any():
            return super()._epsilon(delta, direction)
        delta, out = spread(delta, len(self)), np.empty(len(self))
        rho = m[one] * np.sqrt((1.0 + nu[one]) / nu[one]) * (1.0 + FEW_ROUNDINGS)
        out[one] = PosteriorSamplePair(nu[one], rho, self._codes[one])._epsilon(delta[one], direction)
        if not one.all():
            out[~one] = super(GeneralGaussian, self[~one])._epsilon(delta[~one], direction)
        return out

    def coordinates(self) -> LossCoordinates:
        """The coordinates as they are."""
        return LossCoordinates.gaussian(self._excess, self._shift)


def _symmetric(a: NDArray[np.floating[Any]]) -> Floats:
    return np.asarray(0.5 * (a + np.swapaxes(a, 1, 2)), dtype=np.float64)


def _root(covariance: Floats, name: str) -> Floats:
    """Return the Cholesky factors, or say whose covariance has none."""
    lowest = np.linalg.eigvalsh(_symmetric(covariance)).min(axis=1, initial=np.inf)
    if not (lowest > 0).all():
        raise InvalidInput(
            f"{name} must be positive definite, it is not for {int((~(lowest > 0)).sum())} people, the first at "
            f"position {int((~(lowest > 0)).argmax())}; leave out the directions without noise"
        )
    try:
        return np.asarray(np.linalg.cholesky(_symmetric(covariance)), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise InvalidInput(f"{name} must be positive definite, for somebody it is not to working precision") from None
