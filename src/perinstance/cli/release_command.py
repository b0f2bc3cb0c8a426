"""``perinstance release``: publish a model with a promise."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from perinstance.cli import options as o


class Method(str, Enum):
    """Estimators that keep an (epsilon, delta) promise."""

    adaops = "adaops"
    adassp = "adassp"


def release(
    file: o.Table,
    target: o.Target,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The promise: no person loses more.")],
    x_bound: Annotated[float, typer.Option("--x-bound", help="Declared: rows are clipped to this norm.")],
    y_bound: Annotated[float, typer.Option("--y-bound", help="Declared: targets are clipped to this size.")],
    method: Annotated[Method, typer.Option("--method", help="The estimator.")] = Method.adassp,
    feature: o.Features = None,
    id: o.Id = None,
    delta: o.Delta = 1e-6,
    n_public: Annotated[
        int | None, typer.Option("--n-public", help="Declared: the number of people is public.")
    ] = None,
    kappa: Annotated[
        float | None, typer.Option("--kappa", help="adaops: the largest acceptable condition number.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where the model is written.")] = Path("model.json"),
    quiet: o.Quiet = False,
    json: o.Json = False,
) -> None:
    r"""Publish a regression of FILE that keeps an (epsilon, delta) promise, as JSON.

    Names and types of columns are checked. What the rows hold is not, nor how many there are, because a refusal would
    tell: a row with a cell that is missing or no number counts as a row of zeros, numbers beyond bounds are clipped.

    [bold]Example[/bold]

      perinstance release patients.parquet --target bmi --method adaops --epsilon 1 --delta 1e-6 \\
          --x-bound 1 --y-bound 1 --n-public 4420 --out model.json
    """
    import perinstance as pi
    from perinstance.cli import terminal
    from perinstance.cli.model_file import write_model
    from perinstance.errors import InvalidInput
    from perinstance.releases.base.shown_decimals import declared_text

    o.check_places(out)
    promise: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "x_bound": x_bound, "y_bound": y_bound}
    if method is Method.adaops:
        estimator = pi.AdaOPS(**promise, n_public=n_public, kappa=kappa)
    else:
        if n_public is not None or kappa is not None:
            raise InvalidInput("--n-public and --kappa belong to --method adaops; leave them out, or choose adaops")
        estimator = pi.AdaSSP(**promise)
    rows = pi.data.load(pi.scan(file), target, ids=id, features=feature or None)
    estimator.fit(rows.X, rows.y)
    record = write_model(estimator, out, features=rows.names, target=target)
    if json:
        terminal.print_json(record)
    elif not quiet:
        text = terminal.console()
        text.print(
            f"Published {type(estimator).__name__}: (ε, δ) = ({declared_text(epsilon)}, {declared_text(delta)}), "
            f"{len(rows.names)} coefficients."
        )
        # said whatever the rows hold
        text.print("Any row with a cell that is missing or no number counts as a row of zeros.", soft_wrap=True)
        text.print(f"Model: {out.resolve()}", soft_wrap=True, markup=False)
