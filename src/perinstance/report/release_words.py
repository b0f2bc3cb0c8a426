"""A release and its fit in words: what was published, what the noise costs, how healthy the numbers are."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance._version import __version__
from perinstance.auditing.audit_call import MANY_CLIPPED
from perinstance.releases.base.release import Release
from perinstance.report.redaction import SHARED
from perinstance.report.words import loss, number, people, share

if TYPE_CHECKING:
    from perinstance.analysis.accuracy_comparison import AccuracyComparison
    from perinstance.auditing.result import Audit, Health
    from perinstance.auditing.rows_again import RowsBeyond
    from perinstance.auditing.scattered_audit import ScatteredAudit
    from perinstance.report.reported_losses import CommonStatements

COMPARISON_COST = (
    "Each row was held out once; the private model of the others was drawn for this comparison and thrown away, so the "
    "published draw and its promise are as they would be without it. The errors themselves have no protection: they "
    "are for the curator alone. Publishing them, or choosing what to publish by them, is a release that no promise "
    "covers."
)


def release_line(release: Release) -> str:
    """Say what was released, in one line without data."""
    return "".join(word if isinstance(word, str) else number(word) for word in release.mechanism().words)


def accuracy_cost(audit: Audit | ScatteredAudit) -> float | None:
    """Return the root mean square change that the noise makes to a prediction: ``sqrt(tr(root' X'X root) / n)``."""
    fit, release = audit.fit, audit.release
    gram, n = fit.gram, fit.health.n_people
    try:
        root = np.asarray(release.law(fit).root, dtype=float) if gram is not None and n else ()
    except Exception:  # a release without a law, or an improper posterior, has no finite cost to show
        return None
    if gram is None or len(root) != len(gram):
        return None
    return math.sqrt(max(float(np.vdot(root, gram @ root)), 0.0) / n)


def health_lines(
    health: Health, kinds: Mapping[str, int], rechecks: Sequence[Any], redact: bool
) -> list[tuple[str, str]]:
    """List what a careful reader wants to know about the numbers themselves; ``kinds`` are so many people's each."""
    total = max(sum(kinds.values()), 1)
    kinds_line = ("Kinds of answers", ", ".join(f"{kind}: {share(kinds[kind] / total)}" for kind in sorted(kinds)))
    if redact:  # one row far out decides the condition, the factorisation and the largest leverage
        told = kinds_line if min(kinds.values()) >= SHARED else ("Kinds of answers", "left out of this redacted copy")
        return [told]
    clipped = {"Rows": health.clipped_features, "Targets": health.clipped_targets}
    lines = {
        "Condition number": None if health.condition is None else number(float(health.condition)),
        "Factorisation": health.factorisation,
        "Relative error of the leverages, about": None if health.error is None else number(float(health.error)),
        "Largest in-sample leverage": number(float(health.largest_leverage)),
    } | {
        f"{what} clipped to the declared bound": None if count is None else f"{count:,} of {health.n_people:,}"
        for what, count in clipped.items()
    }
    refits = [
        (
            f"Re-checked by refit: {check.name}",
            f"loss {loss(check.epsilon)} by formula, {loss(check.refitted)} by refit, "
            f"relative difference {number(check.difference)}",
        )
        for check in rechecks
    ]
    return [kinds_line, *((name, str(told)) for name, told in lines.items() if told is not None), *refits]


def promise_of(audit: Audit | ScatteredAudit) -> float | None:
    """Return the epsilon that the release promises everybody at the audit's delta, if it promises."""
    release: Any = audit.release  # of those that promise, which have a method for it
    if not release.mechanism().promises:
        return None
    if release.delta is not None and float(release.delta) == audit.delta:
        return float(release.epsilon)
    return float(release.promise(audit.n_features).epsilon(audit.delta))


def bound_warnings(
    top: float, health: Health, said: CommonStatements, beyond: RowsBeyond | None, redact: bool
) -> list[tuple[str, str]]:
    """Say that declared bounds are broken or clip many rows: first words, and the rest; ``top`` is the largest loss."""
    if redact:
        declared = said.dp is not None or said.everyone is not None
        hidden = "the statements about anybody are about people within them; whether all are is left out of this copy."
        return [("Of declared bounds:", hidden)] if declared else []
    found, broken = [], "The table breaks the declared bounds:"
    if beyond is not None and beyond.either:
        of = f"{beyond.either:,} of {people(beyond.people)} ({beyond.features:,} by their features"
        of += f", {beyond.targets:,} by the target)"
        told = f"beyond them are {of}. What is said of anybody within bounds is not said of them."
        found.append((broken, told))
    elif said.dp is not None and top > said.dp:
        told = f"the largest loss, {loss(top)}, exceeds the worst-case statement {loss(said.dp)} for people within."
        found.append((broken, told))
    elif said.everyone is not None and top > said.everyone:
        told = f"the largest loss, {loss(top)}, exceeds what anybody within them could lose by joining, "
        told += f"{loss(said.everyone)}. Somebody in the table probably lies beyond."
        found.append(("Check the declared bounds:", told))
    clipped = max(health.clipped_features or 0, health.clipped_targets or 0)
    if clipped > MANY_CLIPPED * health.n_people:
        part = share(clipped / health.n_people)
        found.append(("Many rows are clipped:", f"{part} of the people lie beyond a bound, which shifts the estimate."))
    return found


def comparison_lines(comparison: AccuracyComparison) -> list[tuple[str, str]]:
    """Name three models, and their errors on rows that they have not seen."""
    written = share if comparison.measure.startswith("share") else number
    return [
        ("private: this release", written(comparison.private)),
        ("not private: no noise, no clipping", written(comparison.not_private)),
        ("no model: the same answer for everybody", written(comparison.constant)),
    ]


def versions() -> str:
    """Return this package and those that its numbers pass through, with their versions."""
    import numba
    import scipy
    import sklearn

    python = ".".join(str(part) for part in sys.version_info[:3])
    parts = {"numpy": np, "scipy": scipy, "scikit-learn": sklearn, "numba": numba}
    others = ", ".join(f"{name} {module.__version__}" for name, module in parts.items())
    return f"perinstance {__version__}, Python {python}, {others}"


def recipe(audit: Audit | ScatteredAudit, command: str | None) -> str:
    """Say how to get the same numbers again."""
    if command is not None:
        return f"{command}\n# perinstance {__version__}"
    release: Any = audit.release  # a scikit-learn estimator, which the protocol of releases does not ask for
    parameters = ", ".join(f"{k}={v!r}" for k, v in release.get_params(deep=False).items())
    return (
        f"import perinstance as pi\n"
        f"release = pi.{type(release).__name__}({parameters})\n"
        f"audit = pi.audit(release, X, y, delta={audit.delta:g})\n"
        f"# {people(len(audit))}; perinstance {__version__}"
    )
