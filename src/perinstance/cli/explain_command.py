"""``perinstance explain``: what an epsilon means, by the power of the best attack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from perinstance.cli import options as o

RATES = (0.001, 0.01, 0.05, 0.1)


def explain(
    epsilon: Annotated[float, typer.Argument(help="A loss to explain.")] = 1.0,
    delta: o.Delta = 1e-6,
    model: Annotated[
        Path | None, typer.Option("--model", help="Explain the promise of a published model, and say it to its people.")
    ] = None,
    json: o.Json = False,
) -> None:
    """Say what a loss means: how well the best possible attack finds a person.

    [bold]Example[/bold]

      perinstance explain 1 --delta 1e-6

      perinstance explain --model model.json
    """
    from rich.table import Table

    from perinstance.cli import terminal
    from perinstance.errors import InvalidInput
    from perinstance.releases.base.shown_decimals import declared_text
    from perinstance.report import words
    from perinstance.report.words import most_attack_power, shift_of_loss

    sentence = None
    if model is not None:
        import perinstance as pi

        published = pi.load_model(model)
        sentence = published.statement()
        epsilon, delta = published.promise or (epsilon, delta)
    if not epsilon >= 0:
        raise InvalidInput(f"a loss is a number >= 0, got {epsilon:g}; try: perinstance explain 1")
    gaussian = shift_of_loss(epsilon, delta)
    rows = [(rate, float(gaussian.attack_power(rate)[0]), most_attack_power(epsilon, delta, rate)) for rate in RATES]
    if json:
        keys = ("false_positive_rate", "power_gaussian", "power_at_most")
        attack = [dict(zip(keys, row, strict=True)) for row in rows]
        numbers = terminal.with_flags({"epsilon": epsilon, "delta": delta})
        terminal.print_json({**numbers, "attack": attack, "sentence": sentence})
        return
    out = terminal.console()
    out.print(
        f"A loss of ε = {declared_text(epsilon)} at δ = {declared_text(delta)} limits what anybody can learn about "
        f"whether one person is in the data. The strongest attacker knows every other row and the mechanism, and tests "
        f"for this person."
    )
    table = Table(box=None, pad_edge=False)
    for name in ("false alarms allowed", "guessing finds them", "Gaussian noise", "no mechanism more than"):
        table.add_column(name, justify="right")
    for rate, power, most in rows:
        table.add_row(words.share(rate), words.share(rate), *map(words.share_at_most, (power, most)))
    out.print(table)
    out.print(
        f"With and without this person, the chance of any conclusion differs by a factor of at most "
        f"e^ε = {words.loss(_odds(epsilon))} and a remainder of at most {declared_text(delta)}."
    )
    if sentence is not None:
        out.print("For the people in the data:", style="bold")
        out.print(sentence, markup=False)


def _odds(epsilon: float) -> float:
    import math

    return math.exp(epsilon) if epsilon < 700 else math.inf
