"""Commands that make tables and files to begin with: ``demo``, ``reproduce`` (the paper's figures), ``recipe``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

import perinstance as pi
from perinstance.cli import options as o
from perinstance.errors import InvalidInput


def demo(
    out: Annotated[Path, Option(help="Where the report is written (0600).")] = Path("report.html"),
    patients: Annotated[
        Path | None, Option(help="Write a made-up hospital's table (5,000 people) to this CSV instead.")
    ] = None,
    quiet: o.Quiet = False,
) -> None:
    """Audit the 442 diabetes patients that ship inside scikit-learn, and write the report.

    [bold]Example[/bold]

      perinstance demo --out report.html

      perinstance demo --patients patients.csv
    """
    import pyarrow as pa
    import pyarrow.csv as pcsv
    from sklearn.datasets import load_diabetes

    from perinstance.cli import terminal
    from perinstance.cli.audit_command import worst_cases

    if patients is not None:
        o.check_places(patients, new=True)
        table = pi.data.hospital_patients()
        with pi.data.private_file(patients) as stream:
            pcsv.write_csv(table, stream, pcsv.WriteOptions(quoting_style="needed"))
        if not quiet:
            typer.echo(f"{table.num_rows:,} patients of a hospital that does not exist: {patients.resolve()}")
        return
    bunch = load_diabetes()
    # Declared, not estimated: progression lies between -50 and 350 around 150, and a model is off by about 60.
    X, y = bunch.data, bunch.target - 150.0
    release = pi.PosteriorSample(alpha=1.0, gamma=1 / 60**2)
    frame = pa.table({str(name): X[:, j] for j, name in enumerate(bunch.feature_names)})
    ids = [f"patient {i}" for i in range(1, len(y) + 1)]
    with terminal.progress_callback(quiet) as progress:
        answer = pi.audit(release, X, y, ids=ids, delta=1e-6, progress=progress)
    dp, everyone = worst_cases(answer, x_bound=0.5, y_bound=200.0)
    sex = ["sex, first code" if value < 0 else "sex, second code" for value in X[:, bunch.feature_names.index("sex")]]
    report = answer.to_html(
        out,
        title="Who paid for this release: 442 diabetes patients",
        groups=sex,
        dp=dp,
        everyone=everyone,
        rechecks=answer.recheck(X, y),
        rare_features=answer.rare_features(frame, y),
        source="diabetes, scikit-learn",
        command="perinstance demo",
    )
    terminal.show_audit(answer, terminal.console(quiet), terminal.Told(dp, everyone, report.resolve()))


def reproduce(
    name: Annotated[str, Argument(help="fig1, fig2-left, fig2-right, efficiency, ... or all")] = "all",
    out: Annotated[Path, Option(help="The folder for figures and numbers.")] = Path("reproduced"),
    quick: Annotated[bool, Option("--quick", help="Small sizes: seconds instead of minutes.")] = False,
    quiet: o.Quiet = False,
) -> None:
    """Make the paper's figures and numbers again, corrected.

    [bold]Example[/bold]

      perinstance reproduce fig1 --out figures
    """
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


def recipe(
    file: o.Table,
    target: Annotated[str | None, Option(help="The column that is to be predicted.")] = None,
    id: o.Id = None,
    leave_out: Annotated[list[str] | None, Option("--without", help="A column not to be used; repeat.")] = None,
    delimiter: Annotated[str | None, Option(help="Between the fields of a CSV; by default the header tells.")] = None,
    decimal: Annotated[
        str | None, Option(help="The decimal mark of a CSV: . or , (by default most columns tell).")
    ] = None,
    encoding: Annotated[str | None, Option(help="Of a CSV that is not UTF-8, for example cp1252.")] = None,
    check: Annotated[
        Path | None, Option(help="Read all of FILE by this recipe, and say what it cannot read; no draft.")
    ] = None,
    out: Annotated[Path, Option(help="Where the draft is written.")] = Path("recipe.toml"),
    quiet: o.Quiet = False,
) -> None:
    """Write the first draft of a recipe for FILE, from the names and types of its columns alone.

    A recipe says in advance how text, dates and missing cells become numbers. What the draft leaves open is filled in
    from public knowledge, never from the data.

    [bold]Example[/bold]

      perinstance recipe patients.csv --target cost --id person --out recipe.toml

      perinstance recipe patients.csv --check recipe.toml
    """
    from perinstance.data.files.load_whole import draft_of_file, recipe_problems
    from perinstance.report.svg import clean

    if check is not None:
        rule = pi.Recipe.from_toml(check)
        problems = recipe_problems(o.open_table(file, delimiter, None, rule), rule)
        for _, sentence in problems:
            typer.echo(clean(sentence, 1000))
        if problems:
            columns = len({column for column, _ in problems})
            told = f"the recipe cannot read {columns} column{'s'[: columns != 1]}; change it, and check again"
            raise InvalidInput(told)
        typer.echo("Every cell of the recipe's columns can be read.")
        return
    o.check_places(out, new=True)
    unused = tuple(name for name in (id, *(leave_out or ())) if name)
    text = draft_of_file(file, target, unused, decimal, delimiter, encoding)
    out.write_text(text, encoding="utf-8")
    if not quiet:
        typer.echo(f"Draft: {out.resolve()}\nFill in what it marks, from public knowledge; then pass it as --recipe.")
