"""``perinstance audit``: the loss of every person in a file."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perinstance.cli import options as o

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

# Re-checking three people reads the table once more and fits three times: only where that is quick.
RECHECKED_CELLS = 5_000_000

EXAMPLE = """

[bold]Example[/bold]

  perinstance audit patients.parquet --target bmi --id person --release posterior \\
      --alpha 1 --gamma 1 --delta 1e-6 --out report.html --per-person losses.csv

  perinstance audit patients.csv --target bmi --release output --scale 4 --group ward --group sex --fail-over 3
"""


def audit(
    file: o.Table,
    target: o.Target,
    id: o.Id = None,
    feature: o.Features = None,
    release: Annotated[o.ReleaseName, typer.Option("--release", help="What is published.")] = o.ReleaseName.posterior,
    alpha: o.Alpha = 1.0,
    gamma: o.Gamma = None,
    scale: o.Scale = None,
    intercept: o.Intercept = False,
    delta: o.Delta = 1e-6,
    x_bound: o.XBound = None,
    y_bound: o.YBound = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A column to report losses by, not a feature; repeat.")
    ] = None,
    unit: Annotated[str, typer.Option("--unit", help="What the target is measured in, for the report.")] = "",
    out: Annotated[Path, typer.Option("--out", help="Where the report is written (0600).")] = Path("report.html"),
    per_person: Annotated[
        Path | None, typer.Option("--per-person", help="Also write one row per person: .csv or .parquet (0600).")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Leave single people out: of report, terminal, JSON.")
    ] = False,
    fail_over: Annotated[
        float | None, typer.Option("--fail-over", help="Exit 1 when somebody's loss exceeds this.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads; default: all cores.")] = None,
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    """Measure what a release costs every person in FILE, and write the report."""
    import perinstance as pi
    from perinstance.cli import terminal
    from perinstance.engines import Local
    from perinstance.errors import InvalidInput

    bounds = o.both_bounds(x_bound, y_bound)
    if fail_over is not None and not fail_over >= 0:
        raise InvalidInput(f"--fail-over must be a loss >= 0, got {fail_over:g}; try --fail-over 3")
    o.check_places(out, per_person)
    built = o.make_release(release, alpha, gamma, scale, intercept)
    table = pi.scan(file)
    features = o.features_of(table, feature, target, id, *(group or (None,)))
    labels = {name: pi.data.read_labels(table, name) for name in group or []}
    engine = Local(threads=threads)
    with terminal.progress_callback(quiet or json) as progress:
        answer = pi.audit(
            built, table, target=target, ids=id, features=features, delta=delta, engine=engine, progress=progress
        )
    dp, everyone = (None, None) if bounds is None else worst_cases(answer, *bounds)
    columns: dict[str, Any] = {"target": target, "ids": id, "features": features}
    beyond = None if bounds is None else answer.rows_beyond(*bounds, pi.scan(file), **columns)
    few = len(answer) * (answer.n_features + 1) <= RECHECKED_CELLS
    checks = answer.recheck(pi.scan(file), **columns) if few else ()
    rare = answer.rare_features(pi.scan(file), **columns) if few else ()
    report = answer.to_html(
        out, groups=labels, dp=dp, everyone=everyone, redact=redact, rechecks=checks, rare_features=rare,
        beyond=beyond, command=_command(), source=file.name, target=target, unit=unit,
    )  # fmt: skip
    if per_person is not None:
        pi.data.write_losses(per_person, [answer.columns()])
    told = terminal.Told(dp, everyone, report.resolve(), labels, beyond, redact)
    if json:
        terminal.print_json(terminal.audit_record(answer, told))
    else:
        terminal.show_audit(answer, terminal.console(quiet), told)
    if fail_over is not None and float(answer.losses.max()) > fail_over:
        raise typer.Exit(1)


audit.__doc__ = (audit.__doc__ or "") + EXAMPLE


def worst_cases(answer: Audit, x_bound: float, y_bound: float) -> tuple[float | None, float | None]:
    """Return the worst-case DP statement and the loss of anybody within the bounds, where this release has them."""
    from perinstance.errors import BeyondBounds, InvalidInput

    found: list[float | None] = []
    for ask in (answer.dp, answer.everyone):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BeyondBounds)  # who lies beyond is counted, and said, by the command
                found.append(float(ask(x_bound=x_bound, y_bound=y_bound).epsilon))
        except (InvalidInput, NotImplementedError):
            found.append(None)
    return found[0], found[1]


def _command() -> str:
    """Return the command as it was typed: it holds names of files and columns, no data."""
    return shlex.join(["perinstance", *sys.argv[1:]])
