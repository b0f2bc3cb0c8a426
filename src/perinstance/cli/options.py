"""Options that several commands share, and the releases they name."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import perinstance as pi
from perinstance.cli.notices import say, silenced
from perinstance.errors import InvalidInput

Table = Annotated[Path, Argument(metavar="FILE", help="CSV, CSV.gz, Parquet (file or folder) or Arrow.")]
Model = Annotated[Path, Argument(metavar="MODEL", help="A model that `perinstance release` wrote.")]
Target = Annotated[str | None, Option(help="The column that is predicted; a recipe may declare it.")]
Id = Annotated[str | None, Option(help="The column that names people; kept exactly as written.")]
RecipeFile = Annotated[
    Path | None, Option(help="A TOML file: how text, dates and missing cells become numbers (see: recipe).")
]
Features = Annotated[list[str] | None, Option(help="A column to use as feature; repeat. Default: all others.")]
Delimiter = Annotated[str | None, Option(help="Between the fields of a CSV; default: a comma (.tsv: a tab).")]
Decimal = Annotated[str | None, Option(help="In the numbers of a CSV: '.' (default) or ','.")]
Delta = Annotated[float, Option(help="The probability that may be left out; far below 1/people.")]
Alpha = Annotated[float, Option(help="Ridge penalty: ||y - X theta||^2 + alpha ||theta||^2.")]
Gamma = Annotated[float | None, Option(help="Posterior sample: one over the noise variance; 1.")]
Scale = Annotated[float | None, Option(help="Other releases: the scale of the noise; 1.")]
Intercept = Annotated[bool, Option("--intercept/--no-intercept", help="Fit a constant, not penalised.")]
XBound = Annotated[float | None, Option(help="Declared: every row has norm at most this.")]
YBound = Annotated[float | None, Option(help="Declared: every target is at most this in size.")]
RowBound = Annotated[float | None, Option(help="Declared: rows are clipped to this norm; a recipe has its own.")]
Ranges = Annotated[
    list[str] | None,
    Option("--range", help="Declared: NAME=LOW:HIGH of one column, once for each; instead of --x-bound."),
]
TargetBound = Annotated[
    str | None, Option(help="Declared: targets are clipped to this size, or to LOW:HIGH; a recipe has its own.")
]
RowsPerPerson = Annotated[
    int | None, Option(help="Declared: so many rows of each --id are used, drawn of who has more.")
]
Weight = Annotated[str | None, Option(help="The column with the weight of each row, which is no feature.")]
Classes = Annotated[str | None, Option(help="logistic: the two classes, declared, as NO,YES; 0,1 by default.")]
FailOver = Annotated[float | None, Option(help="Exit 1 when somebody's loss exceeds this.")]
Compare = Annotated[
    bool, Option("--compare", help="Also show accuracy with and without privacy, on held-out rows: confidential.")
]
LedgerPlace = Annotated[str | None, Option(help="Charge the people in this ledger; needs --id and --key.")]
Store = Annotated[Path | None, Option(help="With a ledger in a database: the folder for columns per person.")]
Key = Annotated[str | None, Option(help="With --ledger: the release's name there.")]
FixedInAdvance = Annotated[
    bool, Option("--fixed-in-advance", help="Decided on before any output of the other releases was seen.")
]
Quiet = Annotated[bool, Option("--quiet", "-q", callback=silenced, help="Print nothing but errors.")]
Json = Annotated[bool, Option("--json", callback=silenced, help="Print one JSON record instead of tables.")]


class ReleaseName(str, Enum):
    """The releases that the command line can audit."""

    posterior = "posterior"
    output = "output"
    objective = "objective"
    logistic = "logistic"
    poisson = "poisson"


class Method(str, Enum):
    """Estimators that keep an (epsilon, delta) promise."""

    adaops = "adaops"
    adassp = "adassp"
    logistic = "logistic"


#: their classes, by name: they are loaded when used
PROMISING = {"adaops": "AdaOPS", "adassp": "AdaSSP", "logistic": "PrivateLogisticRegression"}


def make_release(name: ReleaseName, alpha: float, gamma: float | None, scale: float | None, intercept: bool) -> Any:
    """Build the release that the options describe; one that does nothing for it is told."""
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
    if recipe is not None and decimal not in (None, recipe.decimal):
        raise InvalidInput("the recipe states how numbers are written; leave --decimal away, or change it there")
    mark = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter) or getattr(recipe, "delimiter", None)
    stated = {} if getattr(recipe, "encoding", None) is None else {"encoding": recipe.encoding}
    table = pi.scan(file, delimiter=mark, decimal=decimal or ("." if recipe is None else recipe.decimal), **stated)
    if (delimiter or decimal) and not hasattr(table, "delimiter"):
        raise InvalidInput("--delimiter and --decimal are for CSV files, and this is none; leave them out")
    return table


def compared(release: Any, rows: Any, recipe: Any) -> Any:
    """Compare accuracy with and without privacy, in the target's unit. Confidential."""
    found = pi.analysis.compare_accuracy(release, rows.X, rows.y, ids=rows.ids)
    return found if recipe is None else found.rescaled(recipe.target_scale)


def both_bounds(x_bound: float | None, y_bound: float | None) -> tuple[float, float] | None:
    """Take two bounds or none."""
    if x_bound is None or y_bound is None:
        if x_bound is not None or y_bound is not None:
            raise InvalidInput("--x-bound and --y-bound go together: declare both, or neither")
        return None
    for name, value in (("--x-bound", x_bound), ("--y-bound", y_bound)):
        if not 0 < value < float("inf"):
            raise InvalidInput(f"{name} must be a number > 0, got {value:g}")
    return x_bound, y_bound


def check_no_weight(weight: str | None, *asked: bool) -> None:
    """Refuse to ask for what is not known of weighted rows."""
    if weight is not None and any(asked):
        raise InvalidInput("--x-bound, --y-bound and --compare are for rows without weights; leave them out")


def check_limit(limit: float | None, option: str = "--fail-over") -> None:
    """Refuse what is no limit of a loss."""
    if limit is not None and not limit >= 0:
        raise InvalidInput(f"{option} must be a loss >= 0, got {limit:g}; try {option} 3")


def check_places(*paths: Path | None, new: bool = False) -> None:
    """Refuse, before the long work, a file that could not be written after it, or (``new``) that is there already."""
    for path in (one for one in paths if one is not None):
        if not path.parent.is_dir():
            raise InvalidInput(f"there is no folder for {path.name!r}; make it first")
        if path.is_dir():
            raise InvalidInput(f"{path.name!r} is a folder; name a file in it")
        if new and path.exists():
            raise InvalidInput(f"{path.name!r} exists already; name another file, or move it away")


def read_recipe(path: Path | None, feature: list[str] | None, target: str | None, intercept: bool = False) -> Any:
    """Read the recipe, if there is one, and see that the target is named, by an option or by the recipe.

    A model with an ``intercept`` of its own needs no column of ones, which would be a zero in it.
    """
    recipe = None if path is None else pi.Recipe.from_toml(path)
    if recipe is not None and recipe.intercept and intercept:
        recipe = pi.Recipe(**{**recipe.get_params(), "intercept": False})
    if recipe is not None and feature:
        raise InvalidInput("a recipe names the columns it uses; leave --feature away")
    declared = None if recipe is None else recipe.target_column
    if target is None and declared is None:
        raise InvalidInput("name the column that is predicted: --target NAME, or [target] in the recipe")
    if declared is not None and target not in (None, declared):
        raise InvalidInput("--target is not the target that the recipe declares; leave it away")
    return recipe


def declared_bounds(
    x_bound: float | None, ranges: list[str] | None, y_bound: str | None, recipe: Any
) -> tuple[Any, Any]:
    """Read the bounds of rows and of the target; where none is asked for, take what the recipe's declarations imply.

    Bounds of single columns are given by name; ``bounds_in_order`` makes of them what estimators take.
    """
    if x_bound is not None and ranges:
        raise InvalidInput("--x-bound bounds whole rows and --range single columns; pass one of them")
    rows: Any = {} if ranges else x_bound
    for text in ranges or ():
        name, equals, span = text.rpartition("=")
        rows[name] = _range_text("--range", span)
        if not equals or not isinstance(rows[name], tuple):
            raise InvalidInput("--range is written NAME=LOW:HIGH, for example --range age=0:110")
    target: Any = None if y_bound is None else _range_text("--y-bound", y_bound)
    if recipe is not None and not ranges:
        if rows is None and recipe.x_bound < float("inf"):
            rows = recipe
        if target is None and recipe.target is not None and recipe.y_bound < float("inf"):
            target = recipe.target_range
    if rows is None:
        raise InvalidInput(
            "--x-bound must be declared, or --range NAME=LOW:HIGH for every column, chosen without looking at the data"
        )
    if target is None:
        raise InvalidInput("--y-bound must be declared: a number > 0, or LOW:HIGH, chosen without looking at the data")
    return rows, target


def bounds_in_order(rows: Any, names: Sequence[str]) -> Any:
    """Return the bounds of these columns, in their order."""
    if not isinstance(rows, dict):
        return rows
    if set(names) != set(rows):
        raise InvalidInput(f"--range must be given once for each of {', '.join(names)}")
    return [rows[name] for name in names]


def declared_classes(text: str | None, y_bound: str | None, logistic: bool, recipe: Any) -> tuple[Any, Any] | None:
    """Read two classes, NO,YES; None where the target is a number. A recipe that declares the target makes it 0 and 1.

    Without either a column of words would count as missing in every row, and a model of nobody would be published.
    """
    if not logistic:
        if text is not None:
            raise InvalidInput("--classes belongs to --method logistic; leave it out, or choose logistic")
        return None
    if y_bound is not None:
        raise InvalidInput("--y-bound is of a number, and --method logistic has two classes; declare --classes NO,YES")
    if text is None and getattr(recipe, "target", None) is None:
        raise InvalidInput(
            "--method logistic has two declared classes; pass --classes NO,YES, as the column writes them"
        )
    words = [word.strip() for word in (text or "0,1").split(",")]
    if len(words) != 2 or not all(words) or words[0] == words[1]:
        raise InvalidInput("--classes is two different words or numbers, written NO,YES, for example --classes 0,1")
    try:
        first, second = (int(word) if word.lstrip("+-").isdigit() else float(word) for word in words)
        return first, second
    except ValueError:
        return words[0], words[1]


def load_rows(
    table: Any, target: Any, id: str | None, feature: list[str] | None, recipe: Any, classes: Any, most: int | None
) -> Any:
    """Read the whole table; of classes in words the target comes as these words, None where it is neither.

    With ``most`` rows of a person declared an id may repeat.
    """
    from dataclasses import replace

    import numpy as np

    if classes is None or not isinstance(classes[0], str):
        return pi.data.load(table, target, ids=id, features=feature or None, recipe=recipe, rows_per_person=most)
    if recipe is not None:
        raise InvalidInput("with --recipe declare words in the recipe's target (no, yes); leave --classes out")
    words = pi.Recipe(target={"column": target, "no": [classes[0]], "yes": [classes[1]]})
    rows = pi.data.load(table, target, ids=id, features=feature or None, recipe=words, rows_per_person=most)
    labels = np.full(len(rows.y), None, dtype=object)
    labels[rows.y == 0], labels[rows.y == 1] = classes
    return replace(rows, y=labels)


def load_weights(table: Any, column: str | None, features: Sequence[str]) -> dict[str, Any]:
    """Read the column of weights, as ``fit`` is given them; a cell that is missing or no number is NaN."""
    if column is None:
        return {}
    if column not in table.columns:
        raise InvalidInput(f"--weight is not among the {len(table.columns)} columns of the table; check its name")
    return {"sample_weight": pi.data.load(table, column, features=[next(one for one in features if one != column)]).y}


def refuse_identifiers(columns: Sequence[Any], target: Any, id: str | None) -> None:
    """Refuse features whose names are those of identifiers: what is published cannot be called back.

    No cell decides, because a refusal would tell about it.
    """
    from perinstance.data.checks.identifiers import notice, why_identifier

    for number, name in enumerate(columns):
        why = why_identifier(name) if isinstance(name, str) and name not in (target, id) else None
        if why is not None:
            raise InvalidInput(notice(number, name, why, id is not None))


def _range_text(option: str, text: str) -> float | tuple[float, float]:
    """Read ``3`` or ``LOW:HIGH``."""
    try:
        numbers = [float(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise InvalidInput(f"{option} must be a number or LOW:HIGH")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def features_of(table: Any, asked: list[str] | None, *others: str | None) -> list[str] | None:
    """Return the features: those asked for, or all columns but target, ids and groups (None: let the table decide)."""
    if asked:
        return asked
    if others[-1] is None or not all(isinstance(name, str) for name in table.columns):
        return None
    return [name for name in table.columns if name not in others]
