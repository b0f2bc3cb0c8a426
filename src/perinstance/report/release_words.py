"""A release and its fit in words: what was published, what the noise costs, how healthy the numbers are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from perinstance._version import __version__
from perinstance.report.words import loss, number, people, share


def release_line(release: Any) -> str:
    """Say what was released, in one line without data."""
    name = type(release).__name__
    parameters = release.get_params(deep=False) if hasattr(release, "get_params") else {}
    estimator = parameters.get("estimator")
    model = "ridge regression, alpha = 1" if estimator is None else _estimator_line(estimator)
    if name == "PosteriorSample" and parameters.get("alpha") is not None:
        constant = ", with intercept" if parameters.get("fit_intercept") else ""
        return (
            f"one posterior sample of ridge regression{constant}, alpha = {number(float(parameters['alpha']))}, "
            f"gamma = {number(float(parameters['gamma']))}"
        )
    if name == "OutputPerturbation":
        shape = "isotropic " if parameters.get("precision") is None else "shaped "
        return f"{model}, plus {shape}Gaussian noise of scale {number(float(parameters['scale']))}"
    if name == "ObjectivePerturbation":
        return f"{model}, with a Gaussian linear term of scale {number(float(parameters['scale']))} in the objective"
    if name == "NoisyMean":
        return f"a mean with {parameters.get('noise')} noise of scale {number(float(parameters['scale']))}"
    told = ", ".join(
        f"{key} = {number(float(value))}" for key, value in parameters.items() if isinstance(value, int | float)
    )
    return f"{name}({told})" if told else name


def _estimator_line(estimator: Any) -> str:
    parameters = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    told = [
        f"{k} = {number(float(parameters[k]))}" for k in ("alpha", "C") if isinstance(parameters.get(k), int | float)
    ]
    return ", ".join([type(estimator).__name__, *told])


def accuracy_cost(audit: Any) -> float | None:
    """Return the root mean square change that the noise makes to a prediction: ``sqrt(tr(root' X'X root) / n)``."""
    fit, release = audit.fit, audit.release
    H, penalty, n = getattr(fit, "H", None), getattr(fit, "penalty", None), getattr(fit, "n_people", 0)
    if H is None or penalty is None or not n or not hasattr(release, "law"):
        return None
    try:
        root = np.asarray(release.law(fit).root, dtype=float)
    except Exception:  # an improper posterior has no finite cost to show
        return None
    if np.ndim(penalty) != 1 or len(root) != len(H):
        return None
    gram = np.asarray(H) - np.diag(penalty)
    return math.sqrt(max(float(np.einsum("ij,ik,kj->", root, gram, root)), 0.0) / n)


def health_lines(audit: Any, rechecks: Sequence[Any], redact: bool) -> list[tuple[str, str]]:
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


def recipe(audit: Any, command: str | None) -> str:
    """Say how to get the same numbers again."""
    if command is not None:
        return f"{command}\n# perinstance {__version__}"
    parameters = ", ".join(f"{k}={v!r}" for k, v in audit.release.get_params(deep=False).items())
    return (
        f"import perinstance as pi\n"
        f"release = pi.{type(audit.release).__name__}({parameters})\n"
        f"audit = pi.audit(release, X, y, delta={audit.delta:g})\n"
        f"# {people(len(audit.pairs))}; perinstance {__version__}"
    )
