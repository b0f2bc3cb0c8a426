"""A release and its fit in words: what was published, what the noise costs, how healthy the numbers are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance._version import __version__
from perinstance.releases.base.release import Release
from perinstance.report.words import loss, number, people, share

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit


def release_line(release: Release) -> str:
    """Say what was released, in one line without data."""
    return "".join(word if isinstance(word, str) else number(word) for word in release.mechanism().words)


def accuracy_cost(audit: Audit) -> float | None:
    """Return the root mean square change that the noise makes to a prediction: ``sqrt(tr(root' X'X root) / n)``."""
    fit, release = audit.fit, audit.release
    gram, n = fit.gram, fit.health.n_people
    if gram is None or not n or not hasattr(release, "law"):
        return None
    try:
        root = np.asarray(release.law(fit).root, dtype=float)
    except Exception:  # an improper posterior has no finite cost to show
        return None
    if len(root) != len(gram):
        return None
    return math.sqrt(max(float(np.einsum("ij,ik,kj->", root, gram, root)), 0.0) / n)


def health_lines(audit: Audit, rechecks: Sequence[Any], redact: bool) -> list[tuple[str, str]]:
    """List what a careful reader wants to know about the numbers themselves."""
    health = audit.health
    kinds, counts = np.unique(np.asarray(audit.kind), return_counts=True)
    total = max(int(counts.sum()), 1)
    lines = [
        ("Kinds of answers", ", ".join(f"{k}: {share(c / total)}" for k, c in zip(kinds, counts, strict=True))),
    ]
    if health.condition is not None:
        lines.append(("Condition number", number(float(health.condition))))
    if health.factorisation is not None:
        lines.append(("Factorisation", str(health.factorisation)))
    if health.error is not None:
        lines.append(("Relative error of the leverages, about", number(float(health.error))))
    if not redact:
        lines.append(("Largest in-sample leverage", number(float(health.largest_leverage))))
    for check in () if redact else rechecks:
        lines.append(
            (
                f"Re-checked by refit: {check.name}",
                f"loss {loss(check.epsilon)} by formula, {loss(check.refitted)} by refit, "
                f"relative difference {number(check.difference)}",
            )
        )
    return lines


def recipe(audit: Audit, command: str | None) -> str:
    """Say how to get the same numbers again."""
    if command is not None:
        return f"{command}\n# perinstance {__version__}"
    release: Any = audit.release  # a scikit-learn estimator, which the protocol of releases does not ask for
    parameters = ", ".join(f"{k}={v!r}" for k, v in release.get_params(deep=False).items())
    return (
        f"import perinstance as pi\n"
        f"release = pi.{type(release).__name__}({parameters})\n"
        f"audit = pi.audit(release, X, y, delta={audit.delta:g})\n"
        f"# {people(len(audit.pairs))}; perinstance {__version__}"
    )
