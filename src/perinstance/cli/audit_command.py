"""``perinstance audit``: the loss of every person in a file."""

from __future__ import annotations

import shlex
import sys
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Option

import perinstance as pi
from perinstance.cli import options as o
from perinstance.cli.ledger_command import charge_audit, check_ledger
from perinstance.errors import BeyondBounds, InvalidInput

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

# Re-checking three people reads the table once more and fits three times: only where that is quick.
RECHECKED_CELLS = 5_000_000

EXAMPLE = """

[bold]Example[/bold]

  perinstance audit patients.parquet --target bmi --id person --release posterior \\
      --alpha 1 --gamma 1 --delta 1e-6 --out report.html --per-person losses.csv

  perinstance audit patients.csv --target bmi --release output --scale 4 --group ward --group sex --fail-over 3

  perinstance audit patients.csv --recipe recipe.toml --id person

  perinstance audit patients.csv --model model.json --id person
"""


def audit(
    file: o.Table,
    target: o.Target = None,
    id: o.Id = None,
    weight: o.Weight = None,
    feature: o.Features = None,
    recipe: o.RecipeFile = None,
    model: Annotated[Path | None, Option(help="A published model: who paid for it, by its own pairs.")] = None,
    release: Annotated[o.ReleaseName | None, Option(help="What would be published; posterior by default.")] = None,
    alpha: o.Alpha = 1.0,
    gamma: o.Gamma = None,
    scale: o.Scale = None,
    intercept: o.Intercept = False,
    delta: o.Delta = 1e-6,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    x_bound: o.XBound = None,
    y_bound: o.YBound = None,
    group: Annotated[list[str] | None, Option(help="A column to report losses by, not a feature; repeat.")] = None,
    unit: Annotated[str, Option(help="What the target is measured in, for the report.")] = "",
    out: Annotated[Path, Option(help="Where the report is written (0600).")] = Path("report.html"),
    per_person: Annotated[Path | None, Option(help="Also write one row per person: .csv or .parquet (0600).")] = None,
    redact: Annotated[bool, Option("--redact", help="Leave single people out: of report, terminal, JSON.")] = False,
    fail_over: o.FailOver = None,
    compare: o.Compare = False,
    ledger: o.LedgerPlace = None,
    store: o.Store = None,
    key: o.Key = None,
    fixed_in_advance: o.FixedInAdvance = False,
    threads: Annotated[int | None, Option(help="Threads; default: all cores.")] = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Measure what a release costs every person in FILE, and write the report."""
    from perinstance.cli import terminal
    from perinstance.data.checks.identifiers import warn_of_identifiers
    from perinstance.engines import Local

    bounds = o.both_bounds(x_bound, y_bound)
    o.check_no_weight(weight, bounds is not None, compare)
    o.check_limit(fail_over)
    o.check_places(out, per_person)
    check_ledger(ledger, store, key, id)
    if model is None:
        built = o.make_release(release or o.ReleaseName.posterior, alpha, gamma, scale, intercept)
        rule = o.read_recipe(recipe, feature, target)
    else:
        if release is not None or gamma is not None or scale is not None or recipe is not None or feature:
            raise InvalidInput("--model says itself what was published of which columns; leave the other options out")
        published = pi.load_model(model)
        built, rule, target = published.release(), published.recipe, target or published.target
        feature = None if published.features is None or rule is not None else list(published.features)
    columns: dict[str, Any] = {"target": target or rule.target_column, "ids": id}
    table = o.open_table(file, delimiter, decimal, rule)
    columns["features"] = None if rule else o.features_of(table, feature, target, id, weight, *(group or (weight,)))
    labels = {name: pi.data.read_labels(table, name) for name in group or []}
    if not feature and columns["features"]:  # named here, not by the curator
        warn_of_identifiers(table.select_columns(None, id, columns["features"]))
    with terminal.progress_callback(quiet or json) as progress:
        given = {"engine": Local(threads=threads), "progress": progress, "recipe": rule, "sample_weight": weight}
        answer = pi.audit(built, table, delta=delta, **given, **columns)
    labels = {name: answer.person_labels(of) for name, of in labels.items()}
    charge_audit(ledger, store, key, answer, fixed_in_advance)
    dp, everyone = (None, None) if bounds is None else worst_cases(answer, *bounds)
    beyond = None if bounds is None else answer.rows_beyond(*bounds, table, **columns)
    few = weight is None and len(answer) * (answer.n_features + 1) <= RECHECKED_CELLS
    checks, rare = (one(table, **columns) if few else () for one in (answer.recheck, answer.rare_features))
    comparison = o.compared(built, pi.data.load(table, **columns, recipe=rule), rule) if compare else None
    command = shlex.join(["perinstance", *sys.argv[1:]])  # as it was typed: names of files and columns, no data
    report = answer.to_html(
        out, groups=labels, dp=dp, everyone=everyone, redact=redact, rechecks=checks, rare_features=rare,
        beyond=beyond, command=command, source=file.name, target=columns["target"], unit=unit, comparison=comparison,
    )  # fmt: skip
    exceeded = fail_over is not None and float(answer.losses.max()) > fail_over
    if per_person is not None:
        pi.data.write_losses(per_person, [answer.columns()])
    told = terminal.Told(dp, everyone, report.resolve(), labels, beyond, redact)
    if json:
        shown = None if redact or comparison is None else asdict(comparison)
        more = {"fail_over": fail_over, "failed": exceeded, "comparison": shown}
        terminal.print_json(terminal.audit_record(answer, told) | more)
    else:
        terminal.show_audit(answer, terminal.console(quiet), told)
        if comparison is not None and not redact:
            terminal.show_comparison(comparison, terminal.console(quiet))
    if exceeded:
        _fail(fail_over, float(answer.losses.max()), redact)


def _fail(limit: float | None, largest: float, redact: bool) -> None:
    """Exit with 1, and say why; of one person's loss nothing is said where people are left out."""
    from perinstance.report.words import loss

    top = "" if redact else f": the largest loss is ε = {loss(largest)}"
    print(f"perinstance: failed, somebody's loss exceeds the limit {limit:g} of --fail-over{top}", file=sys.stderr)
    raise typer.Exit(1)


audit.__doc__ = (audit.__doc__ or "") + EXAMPLE


def worst_cases(answer: Audit, x_bound: float, y_bound: float) -> tuple[float | None, float | None]:
    """Return the worst-case DP statement and the loss of anybody within the bounds, where this release has them.

    None where they are said of one row and people have several.
    """
    from perinstance.report.words import holds_for_rows

    if holds_for_rows(answer):
        return None, None
    found: list[float | None] = []
    for ask in (answer.worst_case_dp, answer.everyone):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BeyondBounds)  # who lies beyond is counted, and said, by the command
                found.append(float(ask(x_bound=x_bound, y_bound=y_bound).epsilon))
        except (InvalidInput, NotImplementedError):
            found.append(None)
    return found[0], found[1]
