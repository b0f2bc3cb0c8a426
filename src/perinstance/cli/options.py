"""Options that several commands share, and the releases they name."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from perinstance.cli.notices import silenced
from perinstance.errors import InvalidInput

Table = Annotated[Path, typer.Argument(metavar="FILE", help="CSV, CSV.gz, Parquet (file or folder) or Arrow.")]
Target = Annotated[str, typer.Option("--target", help="The column that is predicted.")]
Id = Annotated[str | None, typer.Option("--id", help="The column that names people; kept exactly as written.")]
Features = Annotated[
    list[str] | None, typer.Option("--feature", help="A column to use as feature; repeat. Default: all others.")
]
Delta = Annotated[float, typer.Option("--delta", help="The probability that may be left out; far below 1/people.")]
Alpha = Annotated[float, typer.Option("--alpha", help="Ridge penalty: ||y - X theta||^2 + alpha ||theta||^2.")]
Gamma = Annotated[float, typer.Option("--gamma", help="Posterior sample: one over the model's noise variance.")]
Scale = Annotated[float, typer.Option("--scale", help="Output or objective perturbation: the noise's scale.")]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="Fit a constant, not penalised.")]
XBound = Annotated[float | None, typer.Option("--x-bound", help="Declared: every row has norm at most this.")]
YBound = Annotated[float | None, typer.Option("--y-bound", help="Declared: every target is at most this in size.")]
FixedInAdvance = Annotated[
    bool, typer.Option("--fixed-in-advance", help="Decided on before any output of the other releases was seen.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=silenced, help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", callback=silenced, help="Print one JSON record instead of tables.")]


class ReleaseName(str, Enum):
    """The releases that the command line can audit."""

    posterior = "posterior"
    output = "output"
    objective = "objective"
    logistic = "logistic"
    poisson = "poisson"


def make_release(name: ReleaseName, alpha: float, gamma: float, scale: float, intercept: bool) -> Any:
    """Build the release that the options describe."""
    import perinstance as pi

    if name is ReleaseName.posterior:
        return pi.PosteriorSample(alpha=alpha, gamma=gamma, fit_intercept=intercept)
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

    if name is ReleaseName.objective:
        return pi.ObjectivePerturbation(estimator=Ridge(alpha=alpha, fit_intercept=intercept), scale=scale)
    if name is ReleaseName.logistic:
        if alpha <= 0:
            raise InvalidInput(f"--alpha must be > 0 for logistic regression, got {alpha:g}; try --alpha 1")
        estimator: Any = LogisticRegression(C=1.0 / alpha, fit_intercept=intercept)
    elif name is ReleaseName.poisson:
        estimator = PoissonRegressor(alpha=alpha, fit_intercept=intercept)
    else:
        estimator = Ridge(alpha=alpha, fit_intercept=intercept)
    return pi.OutputPerturbation(estimator=estimator, scale=scale)


def both_bounds(x_bound: float | None, y_bound: float | None) -> tuple[float, float] | None:
    """Take two bounds or none."""
    if x_bound is None and y_bound is None:
        return None
    if x_bound is None or y_bound is None:
        raise InvalidInput("--x-bound and --y-bound go together: declare both, or neither")
    for name, value in (("--x-bound", x_bound), ("--y-bound", y_bound)):
        if not 0 < value < float("inf"):
            raise InvalidInput(f"{name} must be a number > 0, got {value:g}")
    return x_bound, y_bound


def check_places(*paths: Path | None) -> None:
    """Refuse, before the long work, a file that could not be written after it."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            raise InvalidInput(f"there is no folder for {path.name!r}; make it first")
        if path is not None and path.is_dir():
            raise InvalidInput(f"{path.name!r} is a folder; name a file in it")


def features_of(table: Any, asked: list[str] | None, *others: str | None) -> list[str] | None:
    """Return the features: those asked for, or all columns but target, ids and groups (None: let the table decide)."""
    if asked:
        return asked
    if others[-1] is None or not all(isinstance(name, str) for name in table.columns):
        return None
    return [name for name in table.columns if name not in others]
