"""Options that several commands share, and the releases they name."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from perinstance.cli.notices import say, silenced
from perinstance.errors import InvalidInput

Table = Annotated[Path, typer.Argument(metavar="FILE", help="CSV, CSV.gz, Parquet (file or folder) or Arrow.")]
Target = Annotated[str | None, typer.Option("--target", help="The column that is predicted; a recipe may declare it.")]
Id = Annotated[str | None, typer.Option("--id", help="The column that names people; kept exactly as written.")]
RecipeFile = Annotated[
    Path | None,
    typer.Option("--recipe", help="A TOML file: how text, dates and missing cells become numbers (see: recipe)."),
]
Features = Annotated[
    list[str] | None, typer.Option("--feature", help="A column to use as feature; repeat. Default: all others.")
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", help="Between the fields of a CSV; default: a comma (.tsv: a tab).")
]
Decimal = Annotated[str | None, typer.Option("--decimal", help="In the numbers of a CSV: '.' (default) or ','.")]
Delta = Annotated[float, typer.Option("--delta", help="The probability that may be left out; far below 1/people.")]
Alpha = Annotated[float, typer.Option("--alpha", help="Ridge penalty: ||y - X theta||^2 + alpha ||theta||^2.")]
Gamma = Annotated[float | None, typer.Option("--gamma", help="Posterior sample: one over the noise variance; 1.")]
Scale = Annotated[float | None, typer.Option("--scale", help="Other releases: the scale of the noise; 1.")]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="Fit a constant, not penalised.")]
XBound = Annotated[float | None, typer.Option("--x-bound", help="Declared: every row has norm at most this.")]
YBound = Annotated[float | None, typer.Option("--y-bound", help="Declared: every target is at most this in size.")]
Compare = Annotated[
    bool, typer.Option("--compare", help="Also show accuracy with and without privacy, on held-out rows: confidential.")
]
LedgerPlace = Annotated[
    str | None,
    typer.Option("--ledger", help="Charge the people in this ledger; needs --id and --key."),
]
Key = Annotated[str | None, typer.Option("--key", help="With --ledger: the release's name there.")]
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


def make_release(name: ReleaseName, alpha: float, gamma: float | None, scale: float | None, intercept: bool) -> Any:
    """Build the release that the options describe; one that does nothing for it is told."""
    import perinstance as pi

    idle = ("--scale", scale) if name is ReleaseName.posterior else ("--gamma", gamma)
    if idle[1] is not None:
        say(f"{idle[0]} does nothing with --release {name.value}; it was not used")
    gamma, scale = 1.0 if gamma is None else gamma, 1.0 if scale is None else scale
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


def open_table(file: Path, delimiter: str | None, decimal: str | None, recipe: Any = None) -> Any:
    """Open a file of rows; options that would do nothing are refused."""
    import perinstance as pi

    if recipe is not None and decimal not in (None, recipe.decimal):
        raise InvalidInput("the recipe states how numbers are written; leave --decimal away, or change it there")
    mark = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter) or getattr(recipe, "delimiter", None)
    table = pi.scan(file, delimiter=mark, decimal=decimal or ("." if recipe is None else recipe.decimal))
    if (delimiter or decimal) and not hasattr(getattr(table, "reader", None), "delimiter"):
        raise InvalidInput("--delimiter and --decimal are for CSV files, and this is none; leave them out")
    return table


def compared(release: Any, rows: Any, recipe: Any) -> Any:
    """Compare accuracy with and without privacy, in the target's unit. Confidential."""
    import perinstance as pi

    found = pi.analysis.compare_accuracy(release, rows.X, rows.y)
    if recipe is None or recipe.target is None:
        return found
    low, high = recipe.inverse_transform_target([0.0, 1.0])
    return found.rescaled(high - low)


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


def read_recipe(path: Path | None, feature: list[str] | None, target: str | None) -> Any:
    """Read the recipe, if there is one, and see that the target is named, by an option or by the recipe."""
    import perinstance as pi

    recipe = None if path is None else pi.Recipe.from_toml(path)
    if recipe is not None and feature:
        raise InvalidInput("a recipe names the columns it uses; leave --feature away")
    declared = None if recipe is None else recipe.target_column
    if target is None and declared is None:
        raise InvalidInput("name the column that is predicted: --target NAME, or [target] in the recipe")
    if declared is not None and target not in (None, declared):
        raise InvalidInput("--target is not the target that the recipe declares; leave it away")
    return recipe


def declared_bounds(x_bound: float | None, y_bound: float | None, recipe: Any) -> tuple[float | None, float | None]:
    """Return the bounds asked for; where none is, what the recipe's declarations imply."""
    if recipe is not None and x_bound is None and recipe.x_bound < float("inf"):
        x_bound = recipe.x_bound
    if recipe is not None and y_bound is None and recipe.target is not None and recipe.y_bound < float("inf"):
        y_bound = recipe.y_bound
    for name, value in (("--x-bound", x_bound), ("--y-bound", y_bound)):
        if value is None:
            raise InvalidInput(f"{name} must be declared: a number > 0, chosen without looking at the data")
    return x_bound, y_bound


def features_of(table: Any, asked: list[str] | None, *others: str | None) -> list[str] | None:
    """Return the features: those asked for, or all columns but target, ids and groups (None: let the table decide)."""
    if asked:
        return asked
    if others[-1] is None or not all(isinstance(name, str) for name in table.columns):
        return None
    return [name for name in table.columns if name not in others]
