"""``python -m benchmarks [names]``: run every module with ``run() -> list[Ratio]`` and print one table."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import pkgutil
import sys

# One core, set before anything imports numpy: ratios are those of one core unless a benchmark says otherwise.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

import benchmarks  # noqa: E402


def names() -> list[str]:
    """Return the modules that define ``run``, read from their source so that none is imported for nothing."""
    found = []
    for module in pkgutil.iter_modules(benchmarks.__path__):
        spec = importlib.util.find_spec(f"benchmarks.{module.name}")
        if spec and spec.origin and module.name != "__main__":
            with open(spec.origin, encoding="utf-8") as source:
                if "\ndef run()" in source.read():
                    found.append(module.name)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 when a promised ratio is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to run; all by default: {', '.join(names())}")
    chosen = parser.parse_args(arguments).names or names()
    unknown = sorted(set(chosen) - set(names()))
    if unknown:
        parser.error(f"no benchmark called {', '.join(unknown)}; there are {', '.join(names())}")
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table("benchmark", "what", "against", "ratio", "promised", "")
    kept = True
    for name in chosen:
        with console.status(f"measuring {name}"):
            ratios = importlib.import_module(f"benchmarks.{name}").run()
        for ratio in ratios:
            promised = "" if ratio.limit is None else f"<= {ratio.limit:g}"
            promised = promised if ratio.at_least is None else f">= {ratio.at_least:,.0f}"
            shown = f"{ratio.value:,.0f}" if ratio.value >= 1000 else f"{ratio.value:.2f}"
            mark = "[green]kept[/]" if ratio.holds else "[red]not kept[/]"
            table.add_row(name, ratio.what, ratio.against, shown, promised, mark if promised else "")
            kept &= ratio.holds
    console.print(table)
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
