"""``perinstance choose``: what different noise or epsilon would cost people and accuracy, for the curator's eyes."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from typer import Option

import perinstance as pi
from perinstance.cli import options as o
from perinstance.errors import InvalidInput, PerinstanceError


class ChosenMethod(str, Enum):
    """What may be compared: promises at several epsilons, or others at several scales (gammas)."""

    adassp = "adassp"
    adaops = "adaops"
    logistic = "logistic"
    output = "output"
    posterior = "posterior"


def choose(
    file: o.Table,
    target: o.Target = None,
    method: Annotated[ChosenMethod, Option(help="What would be published.")] = ChosenMethod.adassp,
    at: Annotated[
        list[float] | None,
        Option(help="An epsilon (of output: a scale; of posterior: a gamma); repeat. Default: .3, 1, 3."),
    ] = None,
    x_bound: o.RowBound = None,
    range_: o.Ranges = None,
    y_bound: o.TargetBound = None,
    classes: o.Classes = None,
    intercept: o.Intercept = True,
    alpha: o.Alpha = 1.0,
    feature: o.Features = None,
    id: o.Id = None,
    rows_per_person: o.RowsPerPerson = None,
    recipe: o.RecipeFile = None,
    delta: o.Delta = 1e-6,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    json: o.Json = False,
) -> None:
    """Compare noise or epsilon on FILE: accuracy, width of intervals, median, 95% and largest loss. Publish none of it.

    [bold]Example[/bold]

      perinstance choose patients.csv --recipe recipe.toml --id person --at 0.5 --at 1 --at 2
    """
    from sklearn.base import clone

    from perinstance.auditing.calibration import CHOSEN_BY_TABLE
    from perinstance.cli import terminal
    from perinstance.report.words import loss

    rule = o.read_recipe(recipe, feature, target, intercept)
    target = target or rule.target_column
    if rows_per_person is not None and (id is None or method.value not in o.PROMISING):
        raise InvalidInput("--rows-per-person needs --id, and a --method that promises: adassp, adaops or logistic")
    two = o.declared_classes(classes, y_bound, method is ChosenMethod.logistic, rule)
    table = o.open_table(file, delimiter, decimal, rule)
    rows = o.load_rows(table, target, id, feature, rule, two, rows_per_person)
    bounds: dict[str, Any] = {}
    if method.value in o.PROMISING:
        x_bounds, y_bounds = o.declared_bounds(x_bound, range_, "1" if two else y_bound, rule)
        bounds = {"delta": delta, "x_bound": o.bounds_in_order(x_bounds, rows.names), "fit_intercept": intercept}
        bounds |= {"classes": two} if two else {"y_bound": y_bounds}
        bounds["rows_per_person"] = rows_per_person
    if not len(rows.y):
        raise InvalidInput("the file has no rows; there is nothing to compare")
    lines = []
    for value in at or (0.3, 1.0, 3.0):
        release: Any = pi.PosteriorSample(alpha=alpha, gamma=value, fit_intercept=intercept)
        if method is ChosenMethod.output:
            release = o.make_release(o.ReleaseName.output, alpha, None, value, intercept)
        elif method.value in o.PROMISING:
            release = getattr(pi, o.PROMISING[method.value])(epsilon=value, **bounds)
        losses = pi.audit(clone(release), rows.X, rows.y, ids=rows.ids, delta=delta).quantile([0.5, 0.95, 1.0])
        compared = o.compared(release, rows, rule)
        width = _width(clone(release).fit(rows.X, rows.y, **({} if rows_per_person is None else {"ids": rows.ids})))
        width = None if width is None else width * (1.0 if rule is None or two else rule.target_scale)
        names = ("at", "error", "interval_width", "median", "q95", "max")
        lines.append(dict(zip(names, (value, compared.private, width, *losses), strict=True)))
    record = {"confidential": True, "measure": compared.measure, "not_private": compared.not_private, "delta": delta}
    if json:
        terminal.print_json({**record, "rows": [terminal.with_flags(line) for line in lines], "note": CHOSEN_BY_TABLE})
        return
    head = "epsilon" if method.value in o.PROMISING else "gamma" if method is ChosenMethod.posterior else "scale"
    heads = (head, compared.measure, "95% interval, width", "median loss", "95%", "largest")
    table, out = terminal.plain_table(None, *heads), terminal.console()
    for line in lines:
        width = line["interval_width"]
        wide = "none" if width is None else "hidden" if width == float("inf") else f"{width:.3g}"
        table.add_row(
            f"{line['at']:g}", f"{line['error']:.4g}", wide, *(loss(line[q]) for q in ("median", "q95", "max"))
        )
    out.print(table)
    out.print(f"Without privacy: {compared.measure} {compared.not_private:.4g}; of no model: {compared.constant:.4g}.")
    out.print("Intervals are those of one draw, which was thrown away, as were those of the comparison.")
    first, colon, rest = CHOSEN_BY_TABLE.partition(":")
    out.print(f"[red]{first}{colon}[/red]{rest}")


def _width(fitted: Any) -> float | None:
    """Return the median width of the coefficients' intervals at one draw, which is thrown away."""
    import numpy as np

    for about in ("population", "table"):
        try:
            found = fitted.inference(about)
        except PerinstanceError:
            continue
        return float(np.median(np.diff(found.conf_int(), axis=1)))
    return None
