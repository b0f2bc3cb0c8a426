"""``perinstance ledger``: what each person has lost over all releases."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

import perinstance as pi
from perinstance.cli import options as o
from perinstance.errors import InvalidInput, NumericalTrouble

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit
    from perinstance.ledger import Ledger

Place = Annotated[str, Argument(metavar="LEDGER", help="The ledger's folder, or postgresql://user@host/name.")]

app = typer.Typer(no_args_is_help=True, help="What each person has lost over all releases; all of it confidential.")


def _say(*lines: str) -> None:
    """Print some lines."""
    for line in lines:
        _terminal().console().print(line, markup=False, soft_wrap=True)


def _terminal() -> Any:
    from perinstance.cli import terminal  # not to say what options there are

    return terminal


def opened(place: str, store: Path | None) -> Ledger:
    """Open a ledger that is there; a mistyped name must not make a new one."""
    if "://" not in place and not os.path.exists(os.path.join(place, "log.sqlite")):
        name = os.path.basename(os.path.abspath(place))
        raise InvalidInput(f"there is no ledger in {name!r}; make one with: perinstance ledger init")
    return pi.Ledger(place, store=store)


def check_ledger(place: str | None, store: Path | None, key: str | None, id: str | None) -> None:
    """Refuse, before the long work, what could not be charged after it."""
    if place is None:
        for option, value in (("--key", key), ("--store", store)):
            if value is not None:
                raise InvalidInput(f"{option} belongs to --ledger; name the ledger, or leave it out")
        return
    if key is None or id is None:
        raise InvalidInput("--ledger needs --key (the release's name there) and --id (the column that names people)")
    opened(place, store)


def charge_audit(place: str | None, store: Path | None, key: str | None, answer: Audit, fixed: bool) -> None:
    """Charge an audit, where a ledger was named."""
    if place is not None and key is not None:
        opened(place, store).charge(answer, key, fixed_in_advance=fixed)


@contextmanager
def reserved(
    place: str | None, store: Path | None, key: str | None, estimator: Any, table: Any, fixed: bool, **columns: Any
) -> Iterator[bool]:
    """Charge before publishing and commit afterwards; rows that cannot be audited are charged with the promise.

    A ledger with a filter fits the estimator itself, on the rows of people whose budget lasts: then True is given.
    """
    from perinstance.pairs.composition import pairs_of_promise

    if place is None or key is None:
        yield False
        return
    ledger = opened(place, store)
    if ledger.filter is not None:
        ledger.admit(estimator, table, key=key, **columns)
        yield True
        return
    try:
        reservation = ledger.reserve(pi.audit(estimator, table, **columns), key, fixed_in_advance=fixed)
    except (InvalidInput, NumericalTrouble):
        ids = list(dict.fromkeys(pi.data.read_labels(table, columns["ids"]).tolist()))  # a person once
        pairs = pairs_of_promise(estimator.epsilon, estimator.delta, len(ids))
        words = type(estimator).__name__
        reservation = ledger.reserve_pairs(ids, pairs, key, mechanism=words, fixed_in_advance=fixed)
    try:
        with reservation:
            yield False
    except BaseException:
        print(
            f"perinstance: the charge {key!r} stays in the ledger as reserved, and counts; say what happened: "
            "perinstance ledger settle LEDGER KEY --not-published, or --published if the output may have been seen",
            file=sys.stderr,
        )
        raise


@app.command()
def init(
    place: Place,
    store: o.Store = None,
    renyi: Annotated[tuple[float, float] | None, Option(help="Enforce a Renyi budget: ORDER BUDGET.")] = None,
    gaussian: Annotated[float | None, Option(help="Enforce a total Gaussian distance for everybody.")] = None,
    delta: o.Delta = 1e-6,
) -> None:
    """Make a ledger, for its owner alone. One ledger for one population, not one per project."""
    from perinstance.ledger import GaussianBudget, RenyiBudget

    if renyi is not None and gaussian is not None:
        raise InvalidInput("--renyi and --gaussian exclude each other; choose one")
    budget: Any = RenyiBudget(*renyi) if renyi is not None else None
    budget = GaussianBudget(gaussian) if gaussian is not None else budget
    found = pi.Ledger(place, store=store, filter=budget)
    where = place if "://" not in place else str(store)
    _say(f"Ledger with {len(found.releases())} releases: {Path(where).resolve().name}")
    if found.filter is not None:
        from perinstance.shown_decimals import loss_text

        _say(
            f"Filter: whatever is released, nobody loses more than ε = {loss_text(found.filter.epsilon(delta))} at "
            f"δ = {delta:g} in all; publish with: perinstance release FILE --ledger {Path(where).name} --key NAME"
        )


@app.command()
def charge(
    place: Place,
    losses: Annotated[Path, Argument(metavar="FILE", help="CSV or Parquet with the people's ids.")],
    key: Annotated[str, Option(help="The release's name in the ledger.")],
    id: Annotated[str, Option(help="The column that names people.")],
    epsilon: Annotated[float, Option(help="What another tool promised each of them.")],
    delta: Annotated[float, Option(help="At which delta it was promised.")] = 0.0,
    note: Annotated[str, Option(help="For the curator.")] = "",
    delimiter: o.Delimiter = None,
    fixed_in_advance: o.FixedInAdvance = False,
    store: o.Store = None,
) -> None:
    """Charge a release of another tool: its promise, to everybody in FILE. Audits are charged by audit --ledger."""
    if not epsilon >= 0:
        raise InvalidInput(f"--epsilon must be a number >= 0, got {epsilon:g}; pass what the other tool promised")
    names = o.open_table(losses, delimiter, None).read_ids(id)
    if not names:
        raise InvalidInput("the file has no rows; there is nobody to charge")
    charged = opened(place, store).charge_pairs(
        names, epsilon, key, delta=delta, note=note, fixed_in_advance=fixed_in_advance
    )
    _say(f"Charged {charged.people:,} people: {charged.key}")


@app.command()
def totals(
    place: Place,
    delta: o.Delta = 1e-6,
    out: Annotated[Path | None, Option(help="Also write everybody's total: .csv or .parquet (0600).")] = None,
    upper: Annotated[bool, Option("--upper", help="Quick upper bounds, by Renyi divergences.")] = False,
    fail_over: Annotated[float | None, Option(help="Exit 1 when somebody's total exceeds this.")] = None,
    store: o.Store = None,
    json: o.Json = False,
) -> None:
    """Show what people have lost in total, at any delta."""
    o.check_limit(fail_over)
    o.check_places(out)
    found = opened(place, store).totals(delta, "upper" if upper else "exact")
    if out is not None:
        found.write(out)
    if json:
        told, names = found.summary(), ("mean", "median", "p95", "p99", "maximum")
        record = {"people": told.people, "delta": told.delta, "kind": told.kind}
        worth = {"releases": found.releases, "guarantee": found.guarantee, "assumption": found.assumption}
        _terminal().print_json(record | _terminal().with_flags({name: getattr(told, name) for name in names}) | worth)
    else:
        _say(str(found.summary()), f"{found.releases} releases; {found.assumption}")
    if fail_over is not None and float(found.losses.max(initial=0.0)) > fail_over:
        print(
            f"perinstance: failed, somebody's total exceeds the limit {fail_over:g} of --fail-over; "
            "perinstance ledger report --limit names who is close",
            file=sys.stderr,
        )
        raise typer.Exit(1)


@app.command()
def report(
    place: Place,
    out: Annotated[Path, Option("--out", "-o", help="Where the page goes (0600).")] = Path("ledger.html"),
    delta: o.Delta = 1e-6,
    limit: Annotated[float | None, Option(help="A total that nobody should pass: who is close to it?")] = None,
    redact: Annotated[bool, Option("--redact", help="Leave out what fewer than 40 people share.")] = False,
    title: Annotated[str | None, Option(help="Of the page.")] = None,
    store: o.Store = None,
) -> None:
    """Write a page: how totals grew, who is near a limit, which release cost most, the log."""
    o.check_places(out)
    named = {} if title is None else {"title": title}
    page = opened(place, store).report(out, delta, limit=limit, redact=redact, **named)
    _say(f"Report: {page.resolve()}")


@app.command()
def person(
    place: Place,
    identity: Annotated[str, Argument(metavar="ID", help="The person's id, exactly as it was written.")],
    delta: o.Delta = 1e-6,
    store: o.Store = None,
    json: o.Json = False,
) -> None:
    """Show the releases of one person and their total."""
    found = opened(place, store).person(identity, delta)
    if json:
        entries = [
            {"key": e.key, "at": e.at, "state": e.state, "mechanism": e.mechanism, "kind": e.kind}
            | _terminal().with_flags({"epsilon": e.epsilon, "total": e.total})
            for e in found.entries
        ]
        worth = {"kind": found.kind, "guarantee": found.guarantee, "assumption": found.assumption}
        _terminal().print_json(
            {"entries": entries, **_terminal().with_flags({"epsilon": found.epsilon}), "delta": found.delta, **worth}
        )
    else:
        _say(str(found))


@app.command()
def releases(place: Place, store: o.Store = None, json: o.Json = False) -> None:
    """List what has been charged."""
    found = opened(place, store).releases()
    if json:
        _terminal().print_json({"releases": [asdict(release) for release in found]})
        return
    for one in found:
        whom = f"{one.people:,} {'rows' if one.unit == 'row' else 'people'}"
        _say(f"{one.at[:10]}  {one.key}  {whom}, {one.state}: {one.mechanism}")
        if one.state == "reserved":
            _say("  not settled, and it counts: perinstance ledger settle LEDGER KEY --published, or --not-published")


@app.command()
def settle(
    place: Place,
    key: Annotated[str, Argument(metavar="KEY", help="The release's name in the ledger (see: releases).")],
    published: Annotated[bool, Option("--published/--not-published", help="Whether it was published or seen.")],
    store: o.Store = None,
) -> None:
    """Settle a release that was reserved when something broke off: was it published, or not?"""
    ledger = opened(place, store)
    found = ledger.commit(key) if published else ledger.cancel(key)
    _say(f"{found.key}: {found.state}")


@app.command("fixed-in-advance")
def fixed_in_advance_(
    place: Place,
    key: Annotated[str, Argument(metavar="KEY", help="The release's name in the ledger (see: releases).")],
    store: o.Store = None,
) -> None:
    """Say afterwards that a release was decided on before any output of the others was seen by who decided."""
    found = opened(place, store).declare_fixed(key)
    _say(f"{found.key}: fixed in advance")


@app.command()
def rename(
    place: Place,
    names: Annotated[Path, Argument(metavar="FILE", help="CSV or Parquet with the columns old and new.")],
    store: o.Store = None,
) -> None:
    """Give people other ids, in all releases: a file, because a shell remembers what is typed."""
    table = o.open_table(names, None, None)
    absent = [name for name in ("old", "new") if name not in table.columns]
    if absent:
        raise InvalidInput(f"{names.name!r} has no column {absent[0]!r}; it needs two, old and new, with an id each")
    old, new = table.read_ids("old"), table.read_ids("new")
    if len(set(old)) < len(old):
        raise InvalidInput("an old id is in the file twice; give everyone one new id")
    count = opened(place, store).rename(dict(zip(old, new, strict=True)))
    _say(f"{count} release{'s'[: count != 1]} written anew; backups and exports are yours to rewrite.")


@app.command()
def forget(
    place: Place,
    identity: Annotated[str, Argument(metavar="ID", help="The person's id, exactly as it was written.")],
    store: o.Store = None,
) -> None:
    """Take a person's identity out of the ledger; their losses stay, under a name that stands for nobody."""
    count = opened(place, store).forget(identity)
    _say(f"{count} release{'s'[: count != 1]} written anew; backups and exports are yours to rewrite.")


@app.command()
def deletions(
    place: Place,
    epsilon: Annotated[float, Option(help="The certificate that is good enough, decided before.")],
    delta: o.Delta = 1e-6,
    out: Annotated[Path | None, Option(help="Also write who: .csv or .parquet (0600).")] = None,
    store: o.Store = None,
) -> None:
    """Count who, alone, can be forgotten while everything that was published stays (deletion with a certificate)."""
    o.check_limit(epsilon, "--epsilon")
    o.check_places(out)
    from perinstance.numerics.charged_rounding import ESTIMATE

    found = opened(place, store).totals(delta)
    possible = (found.losses <= epsilon) & (found.kind_codes < ESTIMATE)
    if out is not None:
        pi.data.write_losses(out, [{**found.columns(), "possible": possible}])
    _say(
        f"{int(possible.sum()):,} of {len(possible):,} people can be forgotten, each by themselves, at "
        f"ε = {epsilon:g}, δ = {delta:g}, while all {found.releases} releases stay.",
        found.assumption,
        "Estimates certify nothing. Several people at once: audit.deletions_together, in Python.",
    )


@app.command()
def verify(place: Place, store: o.Store = None, json: o.Json = False) -> None:
    """Check the log and every file; exit 1 when something was changed, lost or cut."""
    found = opened(place, store).verify()
    if json:
        _terminal().print_json({"ok": found.ok, **asdict(found)})
    else:
        waiting = (f"not settled: {key}; it counts: say with settle whether it was published" for key in found.reserved)
        state = "In order" if found.ok else "DAMAGED"
        _say(*found.problems, *waiting, f"{state}: {found.events} events, head {found.head}")
    if not found.ok:
        raise typer.Exit(1)


@app.command()
def export(
    place: Place,
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Where the copy goes.")],
    store: o.Store = None,
) -> None:
    """Copy a ledger in plain formats into a private folder."""
    _say(f"Exported: {opened(place, store).export(folder).resolve()}")


@app.command()
def regulator(model: o.Model, out: Annotated[Path, Argument(metavar="OUT", help="A new file.")]) -> None:
    """Write a regulator's summary of one published MODEL, as perinstance export --regulator does."""
    from perinstance.cli.model_commands import export as told

    told(model, regulator=out)
