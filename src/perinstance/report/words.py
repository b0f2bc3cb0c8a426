"""Numbers, reasons, a release and its fit in words: the terminal, the notebook and the report say it alike.

A loss is always rounded **up** when it is shown, so that no shown number is below the true one. Its meaning is the best
attack against the Gaussian mechanism of that loss, and against any mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance._version import __version__
from perinstance.auditing.audit_call import MANY_CLIPPED
from perinstance.checked_numbers import probability
from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import KINDS, Kind, is_bound
from perinstance.releases.base.release import Release
from perinstance.releases.promises.promise import gaussian_distance
from perinstance.report.redaction import SHARED
from perinstance.shown_decimals import loss_text as loss
from perinstance.shown_decimals import rounded_up

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
ROW = "one person's row"  #: by what data sets differ where every row is a person
STANDS_OUT = 0.05  #: a person stands out when fewer than this share of the people exceed them
#: Beliefs that somebody may have had before, and the false alarms of the test that they run.
PRIORS = (0.001, 0.01, 0.1, 0.5)
ODDS_RATE = 0.01
#: Up to how many times an alarm raises the odds a word is used. The words are ours; the numbers beside them say more.
SIZES = ((1.2, "very small"), (1.75, "small"), (5.0, "moderate"), (20.0, "large"), (math.inf, "very large"))


def number(value: float, digits: int = 3) -> str:
    """Write an ordinary number with some significant digits.

    >>> number(0.00012345), number(1234567), number(-2.0)
    ('0.000123', '1,234,567', '-2')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞" if value < 0 else "undefined"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{float(f'{value:.{digits}g}'):g}"


def table_of(audit: Any) -> str:
    """Say how many people a table has, and rows where some people have several."""
    rows = "" if audit.n_rows is None else f", {audit.n_rows:,} rows"
    return people(len(audit)) + rows + (", with weights" if getattr(audit, "has_weights", False) else "")


def unit_of(audit: Any) -> str:
    """Say what a loss is the loss of."""
    return ROW if audit.n_rows is None else "all rows of one person"


def holds_for_rows(audit: Any) -> bool:
    """Tell whether what this release promises, or costs anybody, is said of one row, and people here have several."""
    return audit.n_rows is not None and getattr(audit.release, "rows_per_person", None) is None


def people(count: int) -> str:
    """Write a number of people.

    >>> people(1), people(1200)
    ('1 person', '1,200 people')
    """
    return "1 person" if count == 1 else f"{count:,} people"


def features(count: int) -> str:
    """Write a number of features."""
    return "1 feature" if count == 1 else f"{count:,} features"


def short_count(count: int) -> str:
    """Write a number of people in a few letters.

    >>> short_count(950), short_count(12345), short_count(3200000)
    ('950', '12k', '3.2M')
    """
    if count < 10_000:
        return f"{count:,}"
    return f"{count / 1e3:.0f}k" if count < 999_500 else f"{count / 1e6:.2g}M"


def share(part: float) -> str:
    """Write a probability as so many in a hundred, or rarer.

    >>> share(0.5), share(0.013), share(0.00021), share(0.9999)
    ('50%', '1.3%', '0.021%', '99.99%')
    """
    percent = 100.0 * part
    if percent <= 0:
        return "0%"
    if 99 < percent < 100:
        missing = 100.0 - percent
        decimals = min(max(1 - math.floor(math.log10(missing)), 0), 12)
        return f"{percent:.{decimals}f}".rstrip("0").rstrip(".") + "%" if decimals else f"{percent:.0f}%"
    return f"{float(f'{percent:.2g}'):g}%"


def share_at_most(part: float) -> str:
    """Write the power of an attack, or a belief after it, as a share, rounded up like a loss.

    >>> share_at_most(0.05526), share_at_most(1.0)
    ('5.6%', '100%')
    """
    return f"{rounded_up(part, 2).scaleb(2).normalize():f}%" if part > 0 else "0%"


def reasons(leverage: NDArray, residual: NDArray, who: Sequence[int]) -> list[str]:
    """Say why each of some people is exposed: rare features, a badly predicted outcome, or both."""
    if np.isnan(leverage).all():
        return ["not known here"] * len(who)
    rare, surprising = _threshold(leverage), _threshold(np.abs(residual))
    return [reason(bool(leverage[i] >= rare), bool(abs(residual[i]) >= surprising)) for i in who]


def reason(rare: bool, surprising: bool) -> str:
    """Say in words what stands out about a person."""
    told = ["rare features"] * rare + ["badly predicted"] * surprising
    return " and ".join(told) or "neither stands out"


def _threshold(values: NDArray) -> float:
    """Return the value that only a few exceed; infinite for an empty or constant column, where nobody stands out."""
    finite = values[np.isfinite(values)]
    cut = float(np.quantile(finite, 1 - STANDS_OUT)) if len(finite) else -math.inf
    return cut if len(finite) and cut > float(finite.min()) else math.inf


def kind_note(kind: Kind) -> str:
    """Say what numbers of this kind are worth, where that is less than exact; else nothing."""
    notes = {"exact": "", "upper": "Upper bounds: the true losses may be smaller."}
    return notes.get(kind, "Estimates: the true losses may be larger.")


def verdict(
    n: int,
    median: float,
    largest: float,
    dp: float | None,
    promise: float | None,
    power: float,
    false_positive_rate: float,
    kind: Kind = "exact",
    at_most: bool = False,
) -> str:
    """Give the answer in two sentences, and one more where the answers are less than exact.

    ``at_most``: the power is that of any release of the largest loss, and a bound where the loss is one.
    """
    about, most = ("", "at most ") if is_bound(kind) else ("about ", "about ")
    less = "" if is_bound(kind) else " or less"
    first = f"Half of the {people(n)} lost {most}ε = {loss(median)}{less}; the most exposed person "
    first += f"{'lost ' if is_bound(kind) else about}{loss(largest)}"
    if n == 1:
        first = f"The one person in this table lost {about}ε = {loss(largest)}"
    if promise is not None:
        first += f", where the release promises everybody at most {loss(promise)}"
    if dp is not None:
        first += f", where a worst-case statement would have said {loss(dp)} to everyone"
    found = ("at most " if at_most and is_bound(kind) else "") + share_at_most(power)
    second = (
        f"Somebody who knows all the other rows and wants to know whether the most exposed person is in the data "
        f"would find them with probability {found} at the price of {share(false_positive_rate)} false alarms"
    )
    return " ".join([f"{first}.", f"{second}.", *filter(None, [kind_note(kind)])])


def size_in_words(power: float, false_positive_rate: float = ODDS_RATE) -> str:
    """Say whether a loss is small or large, by the power of the best test: an alarm multiplies odds by power over rate.

    >>> size_in_words(0.017), size_in_words(1.0)
    ('small', 'very large')
    """
    return next(word for limit, word in SIZES if power <= limit * false_positive_rate)


def belief_after_alarm(prior: float, power: float, false_positive_rate: float = ODDS_RATE) -> float:
    """Return the probability that the person is in the data once a test of that power has said so (Bayes' rule).

    >>> round(belief_after_alarm(0.5, 0.09), 3)
    0.9
    """
    return prior * power / (prior * power + (1.0 - prior) * false_positive_rate)


def shift_of_loss(epsilon: float, delta: float) -> GaussianShift:
    """Return the Gaussian mechanism whose loss at ``delta`` is ``epsilon`` (the largest distance not above it).

    >>> shift = shift_of_loss(1.0, 1e-6)
    >>> bool(abs(shift.epsilon(1e-6)[0] - 1.0) < 1e-6)
    True
    """
    probability("delta", delta)
    if epsilon > 1e9:
        raise InvalidInput(f"a loss of {epsilon:g} is beyond what can be explained; try one below 1000")
    return GaussianShift([gaussian_distance(epsilon, delta)])


def most_attack_power(epsilon: float, delta: float, false_positive_rate: float) -> float:
    """Return the largest power any test can have against any (epsilon, delta) pair.

    ``min(1, e^eps a + delta, 1 - e^-eps (1 - delta - a))`` (Wasserman and Zhou; Kairouz, Oh and Viswanath).

    >>> most_attack_power(0.0, 0.0, 0.05)
    0.05
    """
    a = false_positive_rate
    grown = math.exp(epsilon) * a + delta if epsilon < 700 else math.inf
    return min(1.0, grown, 1.0 - math.exp(-epsilon) * (1.0 - delta - a))


def release_line(release: Release) -> str:
    """Say what was released, in one line without data."""
    return "".join(word if isinstance(word, str) else number(word) for word in release.mechanism().words)


def accuracy_cost(audit: Any) -> float | None:
    """Return the root mean square change that the noise makes to a prediction: ``sqrt(tr(root' X'X root) / n)``."""
    fit, release = audit.fit, audit.release
    gram, n = fit.gram, fit.health.n_people
    root: Any
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
    for check in rechecks:
        both = f"loss {loss(check.epsilon)} by formula, {loss(check.refitted)} by refit"
        lines[f"Re-checked by refit: {check.name}"] = f"{both}, relative difference {number(check.difference)}"
    return [kinds_line, *((name, str(told)) for name, told in lines.items() if told is not None)]


def kind_counts(audit: Any) -> dict[str, int]:
    """Count the people by the kind of their loss."""
    sketch = getattr(audit, "sketch", None)  # of an audit whose losses lie with workers
    counts = np.bincount(audit.pairs.codes, minlength=len(KINDS)) if sketch is None else sketch.kinds
    return {str(kind): int(count) for kind, count in zip(KINDS, counts, strict=True) if count}


def promise_of(audit: Audit | ScatteredAudit) -> float | None:
    """Return the epsilon that the release promises everybody at the audit's delta, if it promises."""
    release: Any = audit.release  # of those that promise, which have a method for it
    if not release.mechanism().promises or holds_for_rows(audit):
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
