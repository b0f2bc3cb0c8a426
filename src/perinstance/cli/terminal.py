"""What the terminal shows: progress, quantiles, the most exposed. Plain lines when piped."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import words
from perinstance.report.accuracy_lines import COST, comparison_lines
from perinstance.report.exposed_people import most_exposed
from perinstance.report.release_words import release_line
from perinstance.report.svg import clean

if TYPE_CHECKING:
    from perinstance.analysis.utility.accuracy_comparison import AccuracyComparison
    from perinstance.auditing.result import Audit

STAGES = {"fold": "Fitting", "map": "Measuring losses", "refit": "Refitting"}
PLAIN_EVERY = 5.0  # seconds between plain progress lines


def console(quiet: bool = False) -> Console:
    """Return where results go; a pipe gets wide plain lines instead of a terminal's wrapping."""
    return Console(quiet=quiet, width=None if sys.stdout.isatty() else 120, highlight=False, soft_wrap=False)


@contextmanager
def progress_callback(quiet: bool) -> Iterator[Any]:
    """Give a callback ``(stage, done, total)``: a bar with rate and time left in a terminal, plain lines in a pipe."""
    if quiet:
        yield None
    elif sys.stderr.isatty():
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        with bar:
            yield _BarReporter(bar)
    else:
        yield _LineReporter()


class _BarReporter:
    def __init__(self, bar: Progress) -> None:
        self.bar, self.tasks, self.begun = bar, {}, {}  # type: tuple[Progress, dict[str, Any], dict[str, float]]

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage not in STAGES:  # compiling has a line of its own, see ``notices``
            return
        if stage not in self.tasks:
            self.tasks[stage] = self.bar.add_task(STAGES[stage], total=total, rate="")
            self.begun[stage] = time.monotonic()
        passed = max(time.monotonic() - self.begun[stage], 1e-6)
        self.bar.update(self.tasks[stage], completed=done, total=total, rate=f"{done / passed:,.0f} people/s")


class _LineReporter:
    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if stage in STAGES and now - self.last >= PLAIN_EVERY:
            self.last = now
            of = f" of {total:,}" if total else ""
            print(f"{STAGES[stage]}: {done:,}{of} people", file=sys.stderr, flush=True)


def show_audit(
    audit: Audit, out: Console, dp: float | None = None, everyone: float | None = None, report: Path | None = None
) -> None:
    """Show the set-up, the quantiles, the worst-case statement, the ten most exposed and where the report lies."""
    epsilon = np.asarray(audit.epsilon, dtype=float)
    out.print(f"[bold]{escape(release_line(audit.release))}[/bold]")
    out.print(
        f"{words.people(len(epsilon))}, {audit.health.n_features} features, δ = {audit.delta:g}, add/remove one row"
    )
    out.print(_quantiles(epsilon, dp, everyone))
    out.print(_kinds(audit))
    table = Table(title="Most exposed", title_justify="left", box=None, pad_edge=False)
    table.add_column("person", no_wrap=True)
    for name in ("loss ε", "leverage", "error without the person"):
        table.add_column(name, justify="right")
    table.add_column("why")
    for _, person in most_exposed(audit, 10):
        table.add_row(escape(clean(person.id, 24)), person.epsilon, person.leverage, person.residual, person.why)
    out.print(table)
    out.print("[red]Confidential:[/red] computed from personal data. Do not publish.")
    if report is not None:
        out.print(f"Report: {escape(str(report))}", soft_wrap=True)


def show_comparison(comparison: AccuracyComparison, out: Console) -> None:
    """Show accuracy with and without privacy, and what the comparison costs."""
    table = Table(title="What privacy costs in accuracy", title_justify="left", box=None, pad_edge=False)
    table.add_column("model")
    table.add_column(comparison.measure, justify="right")
    for line in comparison_lines(comparison):
        table.add_row(*line)
    out.print(table)
    out.print(f"[red]Confidential:[/red] {COST}")


def comparison_record(comparison: AccuracyComparison | None) -> dict[str, Any] | None:
    """Return the comparison for ``--json``, which is confidential as a whole."""
    return None if comparison is None else asdict(comparison)


def _quantiles(epsilon: np.ndarray, dp: float | None, everyone: float | None) -> Table:
    table = Table(box=None, pad_edge=False, title="Loss ε", title_justify="left")
    q = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0))
    cells = [words.loss(float(v)) for v in q]
    names = ["median", "95%", "99%", "maximum"]
    if everyone is not None:
        names.append("anybody within bounds")
        cells.append(words.loss(everyone))
    if dp is not None:
        names.append("worst case (DP)")
        cells.append(words.loss(dp))
    for name in names:
        table.add_column(name, justify="right")
    table.add_row(*cells)
    return table


def _kinds(audit: Audit) -> str:
    kinds, counts = np.unique(np.asarray(audit.kind), return_counts=True)
    by = dict(zip(kinds.tolist(), counts.tolist(), strict=True))
    n = len(audit.pairs)
    text = f"{by.get('exact', 0):,} of {n:,} answers are exact"
    if by.get("upper"):
        text += f", {by['upper']:,} are upper bounds"
    if by.get("estimate"):
        text += f", {by['estimate']:,} are estimates and promise nothing"
    return text + "."


def audit_record(audit: Audit, dp: float | None, everyone: float | None, report: Path | None) -> dict[str, Any]:
    """Return what ``--json`` prints: numbers of the whole table, no single person."""
    epsilon = np.asarray(audit.epsilon, dtype=float)
    kinds, counts = np.unique(np.asarray(audit.kind), return_counts=True)
    q = attained_quantile(epsilon, (0.5, 0.95, 0.99, 1.0))
    return {
        "confidential": True,
        "release": release_line(audit.release),
        "neighbours": "add or remove one row",
        "people": len(epsilon),
        "features": int(audit.health.n_features),
        "delta": float(audit.delta),
        "epsilon": with_flags(dict(zip(("median", "q95", "q99", "max"), q, strict=True))),
        "kinds": {str(k): int(c) for k, c in zip(kinds, counts, strict=True)},
        **with_flags({"dp": dp, "everyone": everyone}),
        "report": None if report is None else str(report),
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


def say_error(sentence: str) -> None:
    """Print one sentence where errors go."""
    print(f"perinstance: {sentence}", file=sys.stderr)


def why_failed(audit: Audit, limit: float, redact: bool) -> str:
    """Say why ``--fail-over`` failed; a redacted run does not tell the largest loss, which is one person's."""
    largest = "" if redact else f": the largest loss is ε = {words.loss(float(audit.losses.max()))}"
    return f"failed, somebody's loss exceeds the limit {limit:g} of --fail-over{largest}"
