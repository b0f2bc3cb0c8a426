"""``perinstance predict``: what a published model says about the rows of a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from perinstance.cli import options as o
from perinstance.errors import InvalidInput

if TYPE_CHECKING:
    from perinstance.published import PublishedModel


def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model that `perinstance release` wrote.")],
    file: o.Table,
    id: o.Id = None,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Where predictions are written: .csv or .parquet (0600). Default: the terminal."),
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Predict for each row of FILE with a published MODEL; the file may have more columns than the model needs.

    [bold]Example[/bold]

      perinstance predict model.json new.csv --id person --out predictions.csv
    """
    import perinstance as pi
    from perinstance.cli import terminal
    from perinstance.report.svg import clean

    if out is None and quiet:
        raise InvalidInput("--quiet without --out would do nothing; name a file with --out")
    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidInput("predictions are written to a file called .csv or .parquet; choose such a name")
    o.check_places(out)
    published = pi.load_model(model)
    rows = answers(published, o.open_table(file, delimiter, decimal, published.recipe), id)
    if out is None:
        _print_csv(rows)
        return
    count = pi.data.write_losses(out, rows)
    if not quiet:
        shown = terminal.console()
        target = clean(published.target or "the target")  # of a model that anybody may have written
        shown.print(f"{count:,} prediction{'s'[: count != 1]} of {target}.", markup=False)
        shown.print(f"Predictions: {out.resolve()}", soft_wrap=True, markup=False)


def answers(model: PublishedModel, table: Any, ids: str | None) -> Iterator[dict[str, Any]]:
    """Yield the columns of the answer, block by block: ids, predictions, and probabilities where there are any."""
    for block in model.blocks(table, ids):
        columns: dict[str, Any] = {} if block.ids is None else {"id": block.ids}
        columns["prediction"] = model.predict_rows(block.X)
        if model.numbers.probabilities:
            chances = model.probability_rows(block.X)
            columns |= {f"probability {name}": chances[:, k] for k, name in enumerate(model.numbers.classes)}
        yield columns


def _print_csv(blocks: Iterator[dict[str, Any]]) -> None:
    """Print as CSV, in UTF-8 whatever the terminal says: this is a file that was not given a name."""
    import pyarrow as pa
    import pyarrow.csv as pcsv

    from perinstance.data.confidential.loss_writer import safe_columns

    sys.stdout.flush()
    for number, block in enumerate(blocks):
        text = io.BytesIO()
        options = pcsv.WriteOptions(include_header=number == 0, quoting_style="needed")
        pcsv.write_csv(pa.table(safe_columns(block)), text, options)
        sys.stdout.buffer.write(text.getvalue())
    sys.stdout.flush()
