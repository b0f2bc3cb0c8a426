"""``perinstance reproduce``: the paper's figures and tables, from the experiments of the source checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perinstance.cli import options as o


def reproduce(
    name: Annotated[str, typer.Argument(help="fig1, fig2-left, fig2-right, efficiency, ... or all")] = "all",
    out: Annotated[Path, typer.Option("--out", help="The folder for figures and numbers.")] = Path("reproduced"),
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: seconds instead of minutes.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Make the paper's figures and numbers again, corrected.

    [bold]Example[/bold]

      perinstance reproduce fig1 --out figures
    """
    from perinstance.errors import InvalidInput

    try:
        from perinstance_experiments import NAMES, script
    except ImportError:
        raise InvalidInput("the experiments are not installed; install perinstance from its source checkout") from None
    names = list(NAMES) if name == "all" else [name]
    unknown = [n for n in names if n not in NAMES]
    if unknown:
        raise InvalidInput(f"unknown experiment {unknown[0]!r}; choose from {', '.join(NAMES)} or all")
    out.mkdir(parents=True, exist_ok=True)
    for one in names:
        for made in script(one)(out, quick=quick, quiet=quiet):
            if not quiet:
                typer.echo(str(made))
