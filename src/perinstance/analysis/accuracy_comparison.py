"""Private and non-private accuracy on rows that neither has seen: for the curator, before something is published.

The rows are cut into parts. Each part is predicted by two models of the other rows: one draw of the release, made for
this purpose and thrown away, and the same model as scikit-learn fits it, without noise and without clipping. Nothing of
it touches the draw that is published. But the errors are computed from everybody's rows without protection: publishing
them, or choosing among releases by them, is a release of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import is_whole
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.ids import person_codes
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.release import mechanism_of
from perinstance.releases.base.weighted_rows import is_weighted

PARTS = 5
MEASURES = {True: "share of wrong classes", False: "root mean square error"}


@dataclass(frozen=True, slots=True)
class AccuracyComparison(ShownAsTable):
    """Errors on held-out rows. Confidential: they are not covered by the promise of the release."""

    measure: str
    private: float  #: of draws of the release
    not_private: float  #: of the same model without noise and clipping
    constant: float  #: of no model at all: everybody is predicted the mean, or the commonest class
    parts: int
    kind: Kind = "estimate"
    assumptions: tuple[str, ...] = ("each row was held out once; the errors are not protected by the promise",)

    def rescaled(self, factor: float) -> AccuracyComparison:
        """Return the same in another unit of the target; a share has none."""
        if self.measure == MEASURES[True]:
            return self
        size = abs(float(factor))
        return replace(
            self, private=self.private * size, not_private=self.not_private * size, constant=self.constant * size
        )

    def __repr__(self) -> str:
        return "AccuracyComparison(confidential)"  # a repr ends up in logs

    def __str__(self) -> str:
        errors = {"private": self.private, "not private": self.not_private, "no model": self.constant}
        lines = (f"  {name:<12} {error:.4g}" for name, error in errors.items())
        return "\n".join([f"{self.measure} on held-out rows ({self.parts} parts), confidential", *lines])


def compare_accuracy(
    release: Any, X: ArrayLike, y: ArrayLike, parts: int = PARTS, ids: ArrayLike | None = None
) -> AccuracyComparison:
    """Compare a release with the same model without privacy, on held-out rows. The answer is confidential.

    ``release`` is what would be published; it is not fitted itself. The rows (X, y), numbers, are cut into so many
    parts, and each is held out once; with ``ids`` all rows of a person are in one part.

    Examples
    --------
    >>> import perinstance as pi
    >>> x = np.linspace(-1, 1, 500)
    >>> found = compare_accuracy(pi.PosteriorSample(alpha=0.001, gamma=100.0), x[:, None], 2 * x)
    >>> found.not_private < found.private < found.constant
    True
    """
    from sklearn.base import clone, is_classifier

    if is_weighted(release):
        raise InvalidInput("accuracy is compared without weights; pass a release without weights")
    names, frame = getattr(release, "feature_names_in_", None), nw.from_native(X, eager_only=True, pass_through=True)
    if names is not None and isinstance(frame, nw.DataFrame):  # bounds are declared in the order of the release's fit
        if sorted(frame.columns) != sorted(map(str, names)):
            raise InvalidTable("the table has other columns than the release was fitted with; pass those of its fit")
        X = frame.select(list(map(str, names))).to_numpy()
    rows, targets = np.asarray(X, dtype=np.float64), np.asarray(y)
    if not is_whole(parts) or parts < 2:
        raise InvalidInput(f"parts must be a whole number >= 2, got {parts!r}; try parts=5")
    if rows.ndim != 2 or targets.shape != (len(rows),) or len(rows) < 2 * parts:
        raise InvalidInput(f"a comparison needs at least {2 * parts} rows and a target for each")
    plain = _without_privacy(release)
    classes = is_classifier(plain)
    # Rows may come in an order that means something, so they are cut at random; this is no noise and needs no secret.
    people = np.arange(len(rows)) if ids is None else person_codes(ids)
    part = (np.random.default_rng(0).permutation(int(people.max()) + 1) % parts)[people]
    known = ids is not None and hasattr(release, "rows_per_person")  # whoever takes ids
    own = [{"ids": people[part != k]} if known else {} for k in range(parts)]
    wrong = np.zeros((3, parts))
    for k in range(parts):
        seen, held_out = part != k, part == k
        private = clone(release).fit(rows[seen], targets[seen], **own[k]).predict(rows[held_out])
        open_ = clone(plain).fit(rows[seen], targets[seen]).predict(rows[held_out])
        names, counts = np.unique(targets[seen], return_counts=True)
        guess = names[counts.argmax()] if classes else float(targets[seen].mean())
        for line, answer in enumerate((private, open_, guess)):
            miss = targets[held_out] != answer if classes else (targets[held_out] - answer) ** 2
            wrong[line, k] = np.mean(miss)
    mean = wrong.mean(axis=1) if classes else np.sqrt(wrong.mean(axis=1))
    return AccuracyComparison(MEASURES[classes], float(mean[0]), float(mean[1]), float(mean[2]), int(parts))


def _without_privacy(release: Any) -> Any:
    """Return scikit-learn's estimator of the same model."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

    mechanism = mechanism_of(release)
    given = release.get_params(deep=False).get("estimator")
    if mechanism.promises and mechanism.moved == "ridge":
        return LinearRegression(fit_intercept=mechanism.fit_intercept)
    if hasattr(release, "predict") and hasattr(given, "fit") and hasattr(given, "get_params"):
        return given
    if hasattr(release, "predict") and given is None and mechanism.moved == "ridge":
        return Ridge(alpha=mechanism.alpha, fit_intercept=mechanism.fit_intercept)
    if hasattr(release, "predict") and given is None and mechanism.moved == "smooth":
        return LogisticRegression()
    raise InvalidInput(
        f"{mechanism.name} of this model predicts nothing that scikit-learn could predict without privacy; "
        "a comparison needs a regression or a classifier"
    )
