"""``perinstance statement`` and ``publish-losses``: what each person, and everybody, may be told about a model."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import perinstance as pi
from perinstance.cli import options as o
from perinstance.cli.ledger_command import check_ledger, opened
from perinstance.errors import InvalidInput


class PageFormat(str, Enum):
    """How statements are written."""

    html = "html"
    text = "text"


def statement(
    model: o.Model,
    file: o.Table,
    id: o.Id = None,
    target: o.Target = None,
    out: Annotated[Path | None, Option(help="A folder for one page per person: private (0700).")] = None,
    only: Annotated[str | None, Option(help="One person's id: print their statement instead.")] = None,
    format: Annotated[PageFormat, Option(help="Of the pages.")] = PageFormat.html,
    wording: Annotated[Path | None, Option(help="A translation: JSON, sentences by name.")] = None,
    delta: Annotated[float | None, Option(help="Where losses are stated; the promise's.")] = None,
    y_bound: o.YBound = None,
    people: Annotated[int | None, Option(help="Public: at most so many people.")] = None,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    again: Annotated[bool, Option("--again", help="Replace the pages of an earlier run.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Write what each person of FILE may be told: from their own row and the published MODEL, and nothing else.

    [bold]Example[/bold]

      perinstance statement model.json patients.csv --id patient --target bmi --out statements
    """
    from perinstance.cli import terminal
    from perinstance.disclosure import Wording, write_statements

    if (out is None) == (only is None):
        raise InvalidInput("name a folder with --out, or one person with --only")
    if id is None:
        raise InvalidInput("name the column of people's ids with --id: a statement is for one of them")
    published = pi.load_model(model)
    words = Wording.english() if wording is None else Wording.read(wording)
    table = o.open_table(file, delimiter, decimal, published.recipe)
    ids = table.read_ids(id)
    rows = _rows(published, table, target, id)
    public: dict[str, Any] = {"delta": delta, "y_bound": y_bound, "people": people}
    if only is not None:
        if only not in ids:
            raise InvalidInput("--only names nobody of the file; ids are compared exactly as written")
        at = ids.index(only)
        one = pi.disclosure.statement(published, rows.X[at], rows.y[at], **public)
        # the model's own words may hold what a terminal would obey
        text = "".join(letter for letter in one.text(words) if letter.isprintable() or letter == "\n")
        terminal.console().print(text, markup=False, highlight=False)
        return
    assert out is not None
    with terminal.progress_callback(quiet) as progress:

        def pages() -> Iterator[Any]:
            for done, (x, y) in enumerate(zip(rows.X, rows.y, strict=True)):
                if progress is not None:  # a page takes a millisecond
                    progress("tell", done, len(ids))
                yield pi.disclosure.statement(published, x, y, **public)

        place = write_statements(out, ids, pages(), format=format.value, wording=words, again=again)
    if not quiet:
        shown = terminal.console()
        shown.print(f"{len(ids):,} statement{'s'[: len(ids) != 1]}, one page per person.", markup=False)
        shown.print(f"Folder: {place.resolve()} (index.csv says whose page is whose; it stays here)", soft_wrap=True)


def publish_losses(
    model: Annotated[Path, Argument(metavar="MODEL", help="A model that was published from FILE.")],
    file: o.Table,
    epsilon: Annotated[float, Option(help="The promise of this publication; it is on top.")],
    id: o.Id = None,
    target: o.Target = None,
    delta: o.Delta = 1e-6,
    x_bound: o.XBound = None,
    out: Annotated[Path, Option(help="Where the counts are written, as JSON.")] = Path("losses.json"),
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    again: Annotated[bool, Option("--again", help="Publish once more: losses add up.")] = False,
    even_so: Annotated[bool, Option("--even-so", help="Publish although it would say little.")] = False,
    ledger: o.LedgerPlace = None,
    store: o.Store = None,
    key: o.Key = None,
    quiet: o.Quiet = False,
) -> None:
    """Publish how many people of FILE lost how much by MODEL, with noise: a histogram under a promise of its own.

    [bold]Example[/bold]

      perinstance publish-losses model.json patients.csv --target bmi --epsilon 1 --out losses.json
    """
    from sklearn.base import clone

    from perinstance.cli import terminal
    from perinstance.disclosure.loss_bounds import checked_edges
    from perinstance.disclosure.statements import release_of
    from perinstance.shown_decimals import declared_text

    o.check_places(out)
    check_ledger(ledger, store, key, id)
    if out.exists() and not again:
        raise InvalidInput(
            f"{out.name!r} exists: another draw costs everybody once more; pass --again, or another --out"
        )
    published = pi.load_model(model)
    table = o.open_table(file, delimiter, decimal, published.recipe)
    rows = _rows(published, table, target, id)
    ids = None if id is None else table.read_ids(id)
    audit = pi.audit(clone(release_of(published)[0]), rows.X, rows.y, ids=ids, method="estimate", delta=delta)
    if not even_so and published.promise is not None and published.promise[1] <= delta:  # for the curator alone
        median = float(pi.audit(published.release(), rows.X, rows.y, delta=delta).quantile(0.5))
        edge = min((one for one in checked_edges(None) if one >= median), default=float("inf"))
        if edge >= published.promise[0]:
            raise InvalidInput(
                "confidential: half of the people are charged with about what the model promises to everybody, so "
                "that this would cost them once more and say no more than the promise, "
                f"{published.promise[0]:g}; pass --even-so to publish it all the same"
            )
    book = None if ledger is None else opened(ledger, store)
    told = pi.disclosure.publish_losses(
        audit, published, rows.X, rows.y, epsilon=epsilon, delta=delta, x_bound=x_bound, ledger=book, key=key or ""
    )
    with pi.data.private_file(out) as stream:
        stream.write(told.to_json().encode("utf-8"))
    if not quiet:
        shown = terminal.console()
        for read in map(told.quantile, (0.5, 0.95)):
            limit = f"at most {declared_text(read.high)}" if read.high < float("inf") else "more than can be told"
            shown.print(f"{read.share:.0%} of the people lost {limit} (upper bound).", markup=False)
        shown.print(f"Counts: {out.resolve()} (may be published)", soft_wrap=True, markup=False)


def _rows(published: Any, table: Any, target: str | None, id: str | None) -> Any:
    """Read the columns of a model."""
    chosen = None if published.recipe is not None or published.features is None else list(published.features)
    return pi.data.load(table, target or published.target, ids=id, features=chosen, recipe=published.recipe)
