"""What the terminal shows: progress, quantiles, the most exposed. Plain lines when piped."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import words
from perinstance.report.group_lines import SIZE_STEP, by_group, group_rows
from perinstance.report.redaction import SHARED, grid_text, grid_up, shared_losses
from perinstance.report.reported_losses import CommonStatements, most_exposed
from perinstance.report.svg import clean
from perinstance.report.words import COMPARISON_COST, bound_warnings, comparison_lines, release_line

if TYPE_CHECKING:
    from perinstance.analysis.accuracy_comparison import AccuracyComparison
    from perinstance.auditing.result import Audit
    from perinstance.auditing.rows_again import RowsBeyond

STAGES = {"fold": "Fitting", "map": "Measuring losses", "refit": "Refitting", "tell": "Writing statements"}
MOST_GROUPS = 10  # of a grouping, in the terminal
PLAIN_EVERY = 5.0  # seconds between plain progress lines


def console(quiet: bool = False) -> Console:
    """Return where results go; a pipe gets wide plain lines instead of a terminal's wrapping."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=False)


@contextmanager
def progress_callback(quiet: bool) -> Iterator[Any]:
    """Give a callback ``(stage, done, total)``: a bar with the time left in a terminal, plain lines in a pipe."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TextColumn("people"))
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
            tasks: dict[str, Any] = {}

            def draw(stage: str, done: int, total: int | None) -> None:
                if stage in STAGES:  # compiling has a line of its own, see ``notices``
                    if stage not in tasks:
                        tasks[stage] = bar.add_task(STAGES[stage], total=total)
                    bar.update(tasks[stage], completed=done, total=total)

            yield draw
    else:
        last = time.monotonic()

        def write(stage: str, done: int, total: int | None) -> None:
            nonlocal last
            if stage in STAGES and time.monotonic() - last >= PLAIN_EVERY:
                last = time.monotonic()
                of = f" of {total:,}" if total else ""
                print(f"{STAGES[stage]}: {done:,}{of} people", file=sys.stderr, flush=True)

        yield write


@dataclass(frozen=True, slots=True)
class Told:
    """What is shown beside the losses."""

    dp: float | None = None
    everyone: float | None = None
    report: Path | None = None
    groups: Mapping[str, Any] = field(default_factory=dict)  #: labels by the name of the grouping
    beyond: RowsBeyond | None = None
    redact: bool = False


def show_audit(audit: Audit, out: Console, told: Told) -> None:
    """Show the set-up, the quantiles, the worst-case statement, the ten most exposed and where the report lies."""
    epsilon = np.asarray(audit.epsilon, dtype=float)
    out.print(f"[bold]{escape(release_line(audit.release))}[/bold]")
    count = f"{words.table_of(audit)}, {words.features(audit.health.n_features)}"
    unit = "row" if audit.n_rows is None else "person with all their rows"
    out.print(f"{count}, δ = {audit.delta:g}, add/remove one {unit}")
    out.print(_quantiles(epsilon, told))
    if told.redact:
        out.print("Redacted: single people, extremes and groups of fewer than 40 people are left out.")
    else:
        out.print(_kinds(audit))
        out.print(_exposed(audit))
    for name, labels in told.groups.items():
        if lines := _group_records(epsilon, labels, told.redact):
            out.print(_groups(name, lines, told.redact))
    said, top = CommonStatements(told.dp, told.everyone, None), float(epsilon.max(initial=0.0))
    for first, rest in [] if told.redact else bound_warnings(top, audit.health, said, told.beyond, False):
        out.print(f"[red]{escape(first)}[/red] {escape(rest)}")
    out.print("[red]Confidential:[/red] computed from personal data. Do not publish.")
    if told.report is not None:
        out.print(f"Report: {escape(str(told.report))}", soft_wrap=True)


def _exposed(audit: Audit) -> Table:
    table = Table(title="Most exposed", title_justify="left", box=None, pad_edge=False)
    table.add_column("person", no_wrap=True)
    for name in ("loss ε", "leverage", "error without the person"):
        table.add_column(name, justify="right")
    table.add_column("why")
    for _, person in most_exposed(audit, 10):
        table.add_row(escape(clean(person.id, 24)), person.epsilon, person.leverage, person.residual, person.why)
    return table


def show_comparison(comparison: AccuracyComparison, out: Console) -> None:
    """Show accuracy with and without privacy, and what the comparison costs."""
    table = Table(title="What privacy costs in accuracy", title_justify="left", box=None, pad_edge=False)
    table.add_column("model")
    table.add_column(comparison.measure, justify="right")
    for line in comparison_lines(comparison):
        table.add_row(*line)
    out.print(table)
    out.print(f"[red]Confidential:[/red] {COMPARISON_COST}")


def _groups(name: str, lines: list[dict[str, Any]], redact: bool) -> Table:
    """The most exposed groups; the report has all of them."""
    write = grid_text if redact else words.loss
    table = Table(box=None, pad_edge=False, title=escape(f"Loss ε by {clean(name)}"), title_justify="left")
    shown = lines[:MOST_GROUPS]
    if len(shown) < len(lines):
        table.caption = f"{len(shown)} of {len(lines):,} groups, the most exposed; all: in the report."
        table.caption_justify = "left"
    keys = {"median": "median", "95%": "q95"} if redact else {"median": "median", "95%": "q95", "maximum": "max"}
    for head in ("group", "people", *keys):
        table.add_column(head, justify="left" if head == "group" else "right")
    for line in shown:
        cells = ["left out" if line[key] is None else write(line[key]) for key in keys.values()]
        table.add_row(escape(clean(line["group"], 24)), f"{line['people']:,}", *cells)
    return table


def _group_records(epsilon: np.ndarray, labels: Any, redact: bool) -> list[dict[str, Any]]:
    """Return a line for each group, the most exposed first; redacted, of large groups what enough people share."""
    if not redact:
        return [
            {"group": row.name, "people": row.size, "median": row.median, "q95": row.q95, "max": row.largest}
            for row in group_rows(epsilon, labels)
        ]
    lines = []
    for name, losses in by_group(epsilon, labels).items():
        if len(losses) >= SHARED:
            values = dict(zip(("median", "q95"), _shared_quantiles(losses), strict=True))
            size = len(losses) // SIZE_STEP * SIZE_STEP
            lines.append({"group": clean(name, 40), "people": size, **values, "max": None})
    return lines


def _shared_quantiles(epsilon: np.ndarray) -> list[float | None]:
    """Return median and 95% as upper ends of cells that enough people share; None where there is none."""
    shared = shared_losses(epsilon)
    ends = [shared.quantile(q).high for q in (0.5, 0.95)]
    return [end if np.isfinite(end) else None for end in ends]


def _quantiles(epsilon: np.ndarray, told: Told) -> Table:
    table = Table(box=None, pad_edge=False, title="Loss ε", title_justify="left")
    if told.redact:
        shared = shared_losses(epsilon)
        names = ["median at most", "95% at most"]
        cells = ["left out" if v is None else grid_text(v) for v in _shared_quantiles(epsilon)]
        if shared.most is not None:
            names.append(f"all but {shared.cells[-1].people:,} at most")
            cells.append(grid_text(shared.most.high))
    else:
        q = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0))
        cells = [words.loss(float(v)) for v in q]
        names = ["median", "95%", "99%", "maximum"]
    if told.everyone is not None:
        names.append("anybody within bounds")
        cells.append(words.loss(grid_up(told.everyone) if told.redact else told.everyone))
    if told.dp is not None:
        names.append("worst case (DP)")
        cells.append(words.loss(told.dp))
    for name in names:
        table.add_column(name, justify="right")
    table.add_row(*cells)
    return table


def _kinds(audit: Audit) -> str:
    kinds, counts = np.unique(np.asarray(audit.kind), return_counts=True)
    by = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    n = len(audit.pairs)
    text = f"{by['exact']:,} of {n:,} answers are exact" if "exact" in by else f"{n:,} answers"
    if by.get("upper"):
        text += f", {by['upper']:,} are upper bounds: the true losses may be smaller"
    if by.get("estimate"):
        text += f", {by['estimate']:,} are estimates: the true losses may be larger"
    return text + "."


def audit_record(audit: Audit, told: Told) -> dict[str, Any]:
    """Return what ``--json`` prints: numbers of the whole table; redacted, nothing that belongs to a few people."""
    epsilon = np.asarray(audit.epsilon, dtype=float)
    kinds, counts = np.unique(np.asarray(audit.kind), return_counts=True)
    q = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0))
    everyone, hidden = told.everyone, told.redact and int(counts.min()) < SHARED
    if told.redact:
        q = [*_shared_quantiles(epsilon), None, None]
        everyone = None if everyone is None else grid_up(everyone)
    beyond = None if told.beyond is None or told.redact else told.beyond
    return {
        "confidential": True,
        "redacted": told.redact,
        "release": release_line(audit.release),
        "neighbours": "add or remove one row",
        "people": len(epsilon),
        "features": int(audit.health.n_features),
        "delta": float(audit.delta),
        "epsilon": with_flags(dict(zip(("median", "q95", "q99", "max"), q, strict=True))),
        "kind": audit.pairs.kind,
        "kinds": None if hidden else {str(k): int(c) for k, c in zip(kinds, counts, strict=True)},
        "groups": {
            name: [
                {"group": line["group"], "people": line["people"]}
                | with_flags({key: line[key] for key in ("median", "q95", "max")})
                for line in _group_records(epsilon, labels, told.redact)
            ]
            for name, labels in told.groups.items()
        },
        "beyond_bounds": None
        if beyond is None
        else {"people": beyond.either, "features": beyond.features, "targets": beyond.targets},
        **with_flags({"dp": told.dp, "everyone": everyone}),
        "report": None if told.report is None else str(told.report),
    }


def with_flags(numbers: Mapping[str, float | None]) -> dict[str, float | bool | None]:
    """JSON has no infinity: a number is a number or null, and a flag beside it says whether it is infinite.

    >>> with_flags({"dp": float("inf"), "everyone": None})
    {'dp': None, 'dp_infinite': True, 'everyone': None, 'everyone_infinite': False}
    """
    record: dict[str, float | bool | None] = {}
    for name, value in numbers.items():
        infinite = value is not None and bool(np.isinf(value))
        record[name] = None if value is None or infinite else float(value)
        record[f"{name}_infinite"] = infinite
    return record


def print_json(record: dict[str, Any]) -> None:
    """Print one record; characters that the terminal lacks are written as JSON escapes."""
    everywhere = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    print(json.dumps(record, indent=2, ensure_ascii=not everywhere, allow_nan=False))
