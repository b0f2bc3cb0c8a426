"""``perinstance release``: publish a model with a promise."""

from __future__ import annotations

from enum import Enum
from json import loads
from pathlib import Path
from typing import Annotated, Any

from typer import Option
from typer.core import TyperCommand

import perinstance as pi
from perinstance.cli import options as o
from perinstance.cli.ledger_command import check_ledger, reserved
from perinstance.cli.notices import say
from perinstance.errors import InvalidInput, InvalidModelFile


class IntervalsAtPrice(str, Enum):
    """What intervals may cost; the option alone means that they are free."""

    free = "free"
    robust = "robust"


class ReleaseCommand(TyperCommand):
    """A command whose ``--intervals`` needs no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give the bare option its value."""
        for at in [i for i, one in enumerate(args) if one == "--intervals"][::-1]:
            if args[at + 1 : at + 2] not in [[one.value] for one in IntervalsAtPrice]:
                args = [*args[: at + 1], IntervalsAtPrice.free.value, *args[at + 1 :]]
        return super().parse_args(ctx, args)


def release(
    file: o.Table,
    epsilon: Annotated[float, Option(help="The promise: no person loses more.")],
    target: o.Target = None,
    x_bound: o.RowBound = None,
    range_: o.Ranges = None,
    y_bound: o.TargetBound = None,
    intercept: Annotated[bool, Option("--intercept/--no-intercept", help="Whether to fit an intercept.")] = True,
    method: Annotated[o.Method, Option(help="The estimator.")] = o.Method.adassp,
    feature: o.Features = None,
    id: o.Id = None,
    recipe: o.RecipeFile = None,
    delta: o.Delta = 1e-6,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    n_public: Annotated[int | None, Option(help="Declared: the number of people is public.")] = None,
    kappa: Annotated[float | None, Option(help="adaops: the largest acceptable condition number.")] = None,
    classes: o.Classes = None,
    rows_per_person: o.RowsPerPerson = None,
    weight: o.Weight = None,
    weight_bound: Annotated[float | None, Option(help="Declared: the largest weight that counts.")] = None,
    compare: o.Compare = False,
    wanted: Annotated[
        IntervalsAtPrice | None,
        Option(
            "--intervals",
            help="Also print standard errors; nothing more is paid. --intervals robust (adassp): 27% of the squared "
            "budget buys intervals for skewed outcomes whose spread grows with their mean.",
        ),
    ] = None,
    out: Annotated[Path, Option(help="Where the model is written.")] = Path("model.json"),
    again: Annotated[bool, Option("--again", help="Publish once more: losses add up.")] = False,
    ledger: o.LedgerPlace = None,
    store: o.Store = None,
    key: o.Key = None,
    fixed_in_advance: o.FixedInAdvance = False,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    r"""Publish a regression of FILE that keeps an (epsilon, delta) promise, as JSON; of a yes or no: --method logistic.

    Names and types of columns are checked. What the rows hold is not, nor how many there are, because a refusal would
    tell: a row with a cell that is missing or no number counts as if it was not there; numbers beyond bounds are
    clipped.

    [bold]Example[/bold]

      perinstance release patients.parquet --target bmi --method adaops --epsilon 1 --delta 1e-6 \
          --x-bound 1 --y-bound 1 --n-public 4420 --out model.json
    """
    from perinstance.cli import terminal
    from perinstance.shown_decimals import declared_text

    o.check_places(out)
    check_ledger(ledger, store, key, id)
    if compare and json:
        raise InvalidInput("--json prints what is published and --compare what must not be; leave one of them out")
    rule = o.read_recipe(recipe, feature, target, intercept)
    target = target or rule.target_column
    two = o.declared_classes(classes, y_bound, method is o.Method.logistic, rule)
    x_bounds, y_bounds = o.declared_bounds(x_bound, range_, "1" if two else y_bound, rule)
    before = earlier_promise(out, again)
    if kappa is not None and method is not o.Method.adaops:
        raise InvalidInput("--kappa belongs to --method adaops; leave it out, or choose adaops")
    if wanted is IntervalsAtPrice.robust and method is not o.Method.adassp:
        raise InvalidInput("--intervals robust belongs to --method adassp; ask for --intervals, or choose adassp")
    if rows_per_person is not None and id is None:
        raise InvalidInput("--rows-per-person needs --id, the column that says whose row each is")
    if (weight is None) != (weight_bound is None):
        raise InvalidInput("--weight and --weight-bound go together: the column, and the largest weight that counts")
    o.check_no_weight(weight, compare)
    table = o.open_table(file, delimiter, decimal, rule)
    if rule is None and not feature and not range_:  # nobody said which columns are features
        o.refuse_identifiers(table.columns, target, id)
    if rule is None:
        feature = o.features_of(table, feature, target, id, weight)
    rows = o.load_rows(table, target, id, feature, rule, two, rows_per_person)
    promise: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "x_bound": o.bounds_in_order(x_bounds, rows.names)}
    promise |= {"fit_intercept": intercept, "rows_per_person": rows_per_person, "weight_bound": weight_bound}
    promise |= {"classes": two} if two else {"y_bound": y_bounds, "n_public": n_public}
    if method is o.Method.adaops:
        promise["kappa"] = kappa
    elif method is o.Method.adassp:
        promise["intervals"] = "robust" if wanted is IntervalsAtPrice.robust else None
    estimator: Any = getattr(pi, o.PROMISING[method.value])(**promise)
    comparison = o.compared(estimator, rows, rule) if compare else None
    weights = o.load_weights(table, weight, rows.names if rule is None else rule.columns)
    chosen = {"target": target, "ids": id, "features": None if rule is not None else feature or None, "recipe": rule}
    chosen |= weights
    with reserved(ledger, store, key, estimator, table, fixed_in_advance, **chosen) as admitted:
        if not admitted:
            estimator.fit(rows.X, rows.y, ids=rows.ids, **weights)
        text = estimator.to_json(features=rows.names, target=target, recipe=rule)
        with pi.data.private_file(out) as stream:  # until the curator opens it up, readable by its owner alone
            stream.write(text.encode("utf-8"))
    _tell_of_rows(rows, estimator.clipped(rows.X, rows.y), "people" if rows_per_person is None else "rows")
    if before is not None:
        say(
            f"this is one more release about the same people: with the one it replaces, epsilon adds up to "
            f"{declared_text(before[0] + epsilon)} and delta to {declared_text(before[1] + delta)}"
        )
    if json:
        terminal.print_json(loads(text))
    elif not quiet:
        _show(estimator, pi.load_model(out), out, wanted is not None, comparison)


def _show(estimator: Any, model: Any, out: Path, intervals: bool, comparison: Any) -> None:
    """Print what was published, where it lies, and how it reads."""
    from perinstance.cli import terminal
    from perinstance.cli.model_commands import print_model
    from perinstance.releases.base.rows_per_person import rows_words
    from perinstance.shown_decimals import declared_text

    shown, (epsilon, delta) = terminal.console(), model.promise
    shown.print(
        f"Published {model.method}: (ε, δ) = ({declared_text(epsilon)}, {declared_text(delta)}), {model.n_features} "
        f"coefficients{' and an intercept' if estimator.fit_intercept else ''}{''.join(rows_words(estimator))}."
    )
    shown.print("Any row with a cell that is missing or no number counts as if it was not there.", soft_wrap=True)
    shown.print(f"Model: {out.resolve()}", soft_wrap=True, markup=False)
    if comparison is not None:
        terminal.show_comparison(comparison, shown)
    print_model(model, shown, intervals)


def _tell_of_rows(rows: Any, clipped: Any, unit: str) -> None:
    """Tell the curator, and nobody else, how many people (or rows) do not count, and how many rows were clipped."""
    import numpy as np

    gone = np.array([one is None or one != one for one in rows.y.tolist()], dtype=bool)
    absent, of = int((gone | np.isnan(rows.X).any(axis=1)).sum()), f"of {len(rows.y):,} {unit}"
    if absent:
        say(
            f"confidential: {absent:,} {of} have a cell that is missing or no number, and do not "
            "count; many of them shift the model"
        )
    if clipped.features or clipped.labels:
        say(
            f"confidential: the declared bounds clipped {clipped.features:,} rows and {clipped.labels:,} targets "
            f"{of}; many clipped rows shift the model"
        )


def earlier_promise(path: Path, again: bool) -> tuple[float, float] | None:
    """Return epsilon and delta of a model that lies there already; without ``--again`` refuse to publish once more."""
    if not path.exists():
        return None
    if not again:
        raise InvalidInput(
            f"{path.name!r} exists: publishing about the same people once more is a second release, and the two "
            "promises add up; pass --again if that is meant, or name another file with --out"
        )
    try:
        return pi.load_model(path).promise
    except InvalidModelFile:  # some other file
        return None
