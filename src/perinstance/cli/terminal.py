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


def plain_table(title: str | None, *heads: str) -> Table:
    """Return a table without lines, numbers to the right."""
    table = Table(box=None, pad_edge=False, title=title, title_justify="left")
    for head in heads:
        table.add_column(head, justify="left" if head in ("group", "model", "person", "why") else "right")
    return table


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
    out.print(f"[bold]{escape(words.release_line(audit.release))}[/bold]")
    count = f"{words.table_of(audit)}, {words.features(audit.health.n_features)}"
    unit = "row" if audit.n_rows is None else "person with all their rows"
    out.print(f"{count}, δ = {audit.delta:g}, add/remove one {unit}")
    if told.redact:
        shared, ends = shared_losses(epsilon), _shared_quantiles(epsilon)
        texts = ["left out" if end is None else grid_text(end) for end in ends]
        cells = dict(zip(("median at most", "95% at most"), texts, strict=True))
        if shared.most is not None:
            cells[f"all but {shared.cells[-1].people:,} at most"] = grid_text(shared.most.high)
    else:
        values = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0)).tolist()
        cells = dict(zip(("median", "95%", "99%", "maximum"), map(words.loss, values), strict=True))
    if told.everyone is not None:
        cells["anybody within bounds"] = words.loss(grid_up(told.everyone) if told.redact else told.everyone)
    if told.dp is not None:
        cells["worst case (DP)"] = words.loss(told.dp)
    table = plain_table("Loss ε", *cells)
    table.add_row(*cells.values())
    out.print(table)
    if told.redact:
        out.print("Redacted: single people, extremes and groups of fewer than 40 people are left out.")
    else:
        out.print(_kinds(audit))
        exposed = plain_table("Most exposed", "person", "loss ε", "leverage", "error without the person", "why")
        exposed.columns[0].no_wrap = True
        for _, one in most_exposed(audit, 10):
            exposed.add_row(escape(clean(one.id, 24)), one.epsilon, one.leverage, one.residual, one.why)
        out.print(exposed)
    for name, labels in told.groups.items():
        if lines := _group_records(epsilon, labels, told.redact):
            out.print(_groups(name, lines, told.redact))
    said, top = CommonStatements(told.dp, told.everyone, None), float(epsilon.max(initial=0.0))
    for first, rest in [] if told.redact else words.bound_warnings(top, audit.health, said, told.beyond, False):
        out.print(f"[red]{escape(first)}[/red] {escape(rest)}")
    out.print("[red]Confidential:[/red] computed from personal data. Do not publish.")
    if told.report is not None:
        out.print(f"Report: {escape(str(told.report))}", soft_wrap=True)


def show_comparison(comparison: AccuracyComparison, out: Console) -> None:
    """Show accuracy with and without privacy, and what the comparison costs."""
    table = plain_table("What privacy costs in accuracy", "model", comparison.measure)
    for line in words.comparison_lines(comparison):
        table.add_row(*line)
    out.print(table)
    out.print(f"[red]Confidential:[/red] {words.COMPARISON_COST}")


def _groups(name: str, lines: list[dict[str, Any]], redact: bool) -> Table:
    """The most exposed groups; the report has all of them."""
    write, shown = grid_text if redact else words.loss, lines[:MOST_GROUPS]
    keys = {"median": "median", "95%": "q95"} | ({} if redact else {"maximum": "max"})
    table = plain_table(escape(f"Loss ε by {clean(name)}"), "group", "people", *keys)
    if len(shown) < len(lines):
        table.caption = f"{len(shown)} of {len(lines):,} groups, the most exposed; all: in the report."
        table.caption_justify = "left"
    for line in shown:
        cells = ["left out" if line[key] is None else write(line[key]) for key in keys.values()]
        table.add_row(escape(clean(line["group"], 24)), f"{line['people']:,}", *cells)
    return table


def _group_records(epsilon: np.ndarray, labels: Any, redact: bool) -> list[dict[str, Any]]:
    """Return a line for each group, the most exposed first; redacted, of large groups what enough people share."""
    if not redact:
        return [
            {"group": row.name, "people": row.size, "median": row.median, "q95": row.q95, "max": row.largest}
            for row in group_rows(by_group(epsilon, labels))
        ]
    lines = []
    for name, losses in by_group(epsilon, labels).items():
        if losses.people >= SHARED:
            values = dict(zip(("median", "q95"), _shared_quantiles(*losses.weighted()), strict=True))
            size = losses.people // SIZE_STEP * SIZE_STEP
            lines.append({"group": clean(name, 40), "people": size, **values, "max": None})
    return lines


def _shared_quantiles(epsilon: np.ndarray, people: np.ndarray | None = None) -> list[float | None]:
    """Return median and 95% as upper ends of cells that enough people share; None where there is none."""
    ends = map(shared_losses(epsilon, people).quantile, (0.5, 0.95))
    return [one.high if np.isfinite(one.high) else None for one in ends]


def _kinds(audit: Audit) -> str:
    by, n = words.kind_counts(audit), len(audit)
    text = f"{by['exact']:,} of {n:,} answers are exact" if "exact" in by else f"{n:,} answers"
    if "upper" in by:
        text += f", {by['upper']:,} are upper bounds: the true losses may be smaller"
    if "estimate" in by:
        text += f", {by['estimate']:,} are estimates: the true losses may be larger"
    return text + "."


def audit_record(audit: Audit, told: Told) -> dict[str, Any]:
    """Return what ``--json`` prints: numbers of the whole table; redacted, nothing that belongs to a few people."""
    epsilon = np.asarray(audit.epsilon, dtype=float)
    q, kinds = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0)), words.kind_counts(audit)
    everyone, beyond = told.everyone, None if told.redact else told.beyond
    if told.redact:
        q = [*_shared_quantiles(epsilon), None, None]
        everyone = None if everyone is None else grid_up(everyone)
    return {
        "confidential": True,
        "redacted": told.redact,
        "release": words.release_line(audit.release),
        "neighbours": f"add or remove {'one row' if audit.n_rows is None else words.unit_of(audit)}",
        "people": len(epsilon),
        "rows": len(epsilon) if audit.n_rows is None else audit.n_rows,
        "features": int(audit.health.n_features),
        "delta": float(audit.delta),
        "epsilon": with_flags(dict(zip(("median", "q95", "q99", "max"), q, strict=True))),
        "kind": audit.pairs.kind,
        "kinds": None if told.redact and min(kinds.values()) < SHARED else kinds,
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
