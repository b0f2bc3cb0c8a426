"""``perinstance recipe``: the first draft of a public recipe, from names and types."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perinstance.cli import options as o


def recipe(
    file: o.Table,
    target: Annotated[str | None, typer.Option("--target", help="The column that is to be predicted.")] = None,
    id: o.Id = None,
    leave_out: Annotated[list[str] | None, typer.Option("--without", help="A column not to be used; repeat.")] = None,
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Between the fields of a CSV; by default the header tells.")
    ] = None,
    decimal: Annotated[str, typer.Option("--decimal", help="The decimal mark of a CSV: . or ,")] = ".",
    out: Annotated[Path, typer.Option("--out", help="Where the draft is written.")] = Path("recipe.toml"),
    quiet: o.Quiet = False,
) -> None:
    """Write the first draft of a recipe for FILE, from the names and types of its columns alone.

    A recipe says in advance how text, dates and missing cells become numbers. What the draft leaves open is filled in
    from public knowledge, never from the data.

    [bold]Example[/bold]

      perinstance recipe patients.csv --target cost --id person --out recipe.toml
    """
    from perinstance.data.files.load_whole import draft_of_file
    from perinstance.errors import InvalidInput

    o.check_places(out)
    if out.exists():
        raise InvalidInput(f"{out.name!r} exists already; name another file with --out, or move it away")
    text = draft_of_file(file, target, tuple(name for name in (id, *(leave_out or ())) if name), decimal, delimiter)
    out.write_text(text, encoding="utf-8")
    if not quiet:
        typer.echo(f"Draft: {out.resolve()}\nFill in what it marks, from public knowledge; then pass it as --recipe.")
