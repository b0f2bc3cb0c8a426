"""``perinstance warm-up``: compile ahead what would be compiled at first use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perinstance.cli import options as o


def warm_up(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder", help="Where compiled code is kept; default: this Python environment, else the user's caches."
        ),
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Prepare the numerical code for this machine now, so that no later command has to: for images.

    [bold]Example[/bold]

      perinstance warm-up
    """
    from perinstance.warm_up import compile_ahead

    if not quiet:
        typer.echo("Preparing numerical code for this machine, once: about a minute.")
    done = compile_ahead(folder)
    if not quiet:
        typer.echo(
            f"Compiled {done.new} kernels in {done.seconds:.0f} s into {done.folder}"
            if done.new
            else f"Nothing to do: {done.before} compiled kernels lie in {done.folder}"
        )
