"""``perinstance explain``, ``intervals``, ``predict``: what an epsilon means, and what a published model says."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import perinstance as pi
from perinstance.cli import options as o
from perinstance.errors import InvalidInput

if TYPE_CHECKING:
    from perinstance.published import PublishedModel

RATES = (0.001, 0.01, 0.05, 0.1)


def explain(
    epsilon: Annotated[float, Argument(help="A loss to explain.")] = 1.0,
    delta: o.Delta = 1e-6,
    model: Annotated[
        Path | None, Option(help="Explain the promise of a published model, and say it to its people.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Say what a loss means: how well the best possible attack finds a person.

    [bold]Example[/bold]

      perinstance explain 1 --delta 1e-6

      perinstance explain --model model.json
    """
    from perinstance.cli import terminal
    from perinstance.report import words
    from perinstance.shown_decimals import declared_text

    sentence = None
    if model is not None:
        published = pi.load_model(model)
        sentence = published.statement()
        epsilon, delta = published.promise or (epsilon, delta)
    if not epsilon >= 0:
        raise InvalidInput(f"a loss is a number >= 0, got {epsilon:g}; try: perinstance explain 1")
    gaussian = words.shift_of_loss(epsilon, delta)
    rows = [(r, float(gaussian.attack_power(r)[0]), words.most_attack_power(epsilon, delta, r)) for r in RATES]
    if json:
        keys = ("false_positive_rate", "power_gaussian", "power_at_most")
        attack = [dict(zip(keys, row, strict=True)) for row in rows]
        numbers = terminal.with_flags({"epsilon": epsilon, "delta": delta})
        terminal.print_json({**numbers, "attack": attack, "sentence": sentence})
        return
    out, odds = terminal.console(), math.exp(epsilon) if epsilon < 700 else math.inf
    out.print(
        f"A loss of ε = {declared_text(epsilon)} at δ = {declared_text(delta)} limits what anybody can learn about "
        f"whether one person is in the data. The strongest attacker knows every other row and the mechanism, and tests "
        f"for this person."
    )
    heads = ("false alarms allowed", "guessing finds them", "Gaussian noise", "no mechanism more than")
    table = terminal.plain_table(None, *heads)
    for rate, power, most in rows:
        table.add_row(words.share(rate), words.share(rate), *map(words.share_at_most, (power, most)))
    out.print(table)
    out.print(
        f"With and without this person, the chance of any conclusion differs by a factor of at most "
        f"e^ε = {words.loss(odds)} and a remainder of at most {declared_text(delta)}."
    )
    if sentence is not None:
        out.print("For the people in the data:", style="bold")
        out.print(sentence, markup=False)


class About(str, Enum):
    """The two questions."""

    population = "population"
    table = "table"


def intervals(
    model: o.Model,
    about: Annotated[
        About, Option(help="People like these, or what the fit without noise would have said of this table.")
    ] = About.population,
    level: Annotated[float, Option(help="The coverage of the intervals.")] = 0.95,
    json: o.Json = False,
) -> None:
    """Print standard errors, intervals and p-values of a published MODEL. It costs no privacy.

    [bold]Example[/bold]

      perinstance intervals model.json --about table
    """
    from perinstance.cli import terminal
    from perinstance.published.readable import inference_in_units
    from perinstance.report.svg import clean

    found = inference_in_units(pi.load_model(model), about.value)
    found = replace(found, names=tuple(map(clean, found.names)))  # of a file that anybody may have written
    if json:
        table = found.to_dict(level)
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        record = {"method": found.method, "about": found.about, "level": level, "notes": list(found.notes)}
        finite = [{name: None if v in (math.inf, -math.inf) else v for name, v in row.items()} for row in rows]
        terminal.print_json({**record, "coefficients": finite})  # JSON has no infinity; ``resolved`` says which
        return
    terminal.console().print(found.summary(level), markup=False, soft_wrap=True)


def show(model: o.Model, json: o.Json = False) -> None:
    """Show a published MODEL for its readers: coefficients in their units with intervals, promise, bounds. It is free.

    [bold]Example[/bold]

      perinstance show model.json
    """
    from perinstance.cli import terminal
    from perinstance.published.readable import readable_model

    published = pi.load_model(model)
    found = readable_model(published)
    if json:
        rows = [
            {"name": one.name, "reads": one.reads}
            | terminal.with_flags({"coefficient": one.value, "low": one.low, "high": one.high})
            for one in found.coefficients
        ]
        record = {name: getattr(found, name) for name in ("method", "target", "promise", "intervals", "bounds")}
        terminal.print_json({**record, "coefficients": rows})
        return
    print_model(published, terminal.console())


def print_model(model: PublishedModel, out: Any, table: bool = False) -> None:
    """Print what a model says (names in it may be anybody's), and the sentence for its people."""
    from perinstance.published.readable import readable_inference, readable_model

    for line in readable_model(model).lines():
        out.print("".join(letter for letter in line if letter.isprintable()), markup=False, soft_wrap=True)
    found, _ = readable_inference(model)  # why there are none is among the lines
    if table and found is not None:
        out.print(found.summary(), markup=False, soft_wrap=True)
    if model.promise is not None:
        out.print("For the people in the data:", style="bold")
        out.print(model.statement(), markup=False)


def export(
    model: o.Model,
    registry: Annotated[
        Path | None, Option(help="YAML for the deployments registry; what is marked is filled in.")
    ] = None,
    regulator: Annotated[Path | None, Option(help="A regulator's summary, as JSON.")] = None,
    quiet: o.Quiet = False,
) -> None:
    """Tell the outside what a published MODEL is: public things only. It costs no privacy.

    [bold]Example[/bold]

      perinstance export model.json --registry entry.yaml
    """
    import json

    from perinstance.disclosure.summaries import yaml_text

    if registry is None and regulator is None:
        raise InvalidInput("say what is exported: --registry entry.yaml or --regulator summary.json")
    o.check_places(registry, regulator, new=True)
    published = pi.load_model(model)
    texts: dict[Path, str] = {}
    if registry is not None:
        texts[registry] = yaml_text(pi.disclosure.registry_entry(published))
    if regulator is not None:
        summary = pi.disclosure.regulator_summary(published)
        texts[regulator] = json.dumps(summary, indent=2, ensure_ascii=False) + "\n"
    for place, text in texts.items():
        place.write_text(text, encoding="utf-8")
        if not quiet:
            typer.echo(f"Written: {place.resolve()}")


def predict(
    model: o.Model,
    file: o.Table,
    id: o.Id = None,
    delimiter: o.Delimiter = None,
    decimal: o.Decimal = None,
    out: Annotated[
        Path | None, Option(help="Where predictions are written: .csv or .parquet (0600). Default: the terminal.")
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Predict for each row of FILE with a published MODEL; the file may have more columns than the model needs.

    [bold]Example[/bold]

      perinstance predict model.json new.csv --id person --out predictions.csv
    """
    import pyarrow as pa
    import pyarrow.csv as pcsv

    from perinstance.cli import terminal
    from perinstance.data.private_files import safe_columns
    from perinstance.report.svg import clean

    if out is None and quiet:
        raise InvalidInput("--quiet without --out would do nothing; name a file with --out")
    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidInput("predictions are written to a file called .csv or .parquet; choose such a name")
    o.check_places(out)
    published = pi.load_model(model)
    rows = answers(published, o.open_table(file, delimiter, decimal, published.recipe), id)
    if out is None:  # CSV in UTF-8 whatever the terminal says: this is a file that was not given a name
        sys.stdout.flush()
        for number, block in enumerate(rows):
            how = pcsv.WriteOptions(include_header=number == 0, quoting_style="needed")
            pcsv.write_csv(pa.table(safe_columns(block)), sys.stdout.buffer, how)
        sys.stdout.flush()
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
