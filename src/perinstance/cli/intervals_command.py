"""``perinstance intervals``: standard errors and intervals of a published model, from its file alone."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from perinstance.cli import options as o


class About(str, Enum):
    """The two questions."""

    population = "population"
    table = "table"


def intervals(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `perinstance release` wrote.")],
    about: Annotated[
        About,
        typer.Option("--about", help="People like these, or what the fit without noise would have said of this table."),
    ] = About.population,
    level: Annotated[float, typer.Option("--level", help="The coverage of the intervals.")] = 0.95,
    json: o.Json = False,
) -> None:
    """Print standard errors, intervals and p-values of a published MODEL. It costs no privacy.

    [bold]Example[/bold]

      perinstance intervals model.json --about table
    """
    import perinstance as pi
    from perinstance.cli import terminal
    from perinstance.report.svg import clean

    found = pi.load_model(model).inference(about.value)
    found = replace(found, names=tuple(map(clean, found.names)))  # of a file that anybody may have written
    if json:
        table = found.to_dict(level)
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        record = {"method": found.method, "about": found.about, "level": level, "notes": list(found.notes)}
        finite = [{name: None if value in (inf, -inf) else value for name, value in row.items()} for row in rows]
        terminal.print_json({**record, "coefficients": finite})  # JSON has no infinity; ``resolved`` says which
        return
    terminal.console().print(found.summary(level), markup=False, soft_wrap=True)
