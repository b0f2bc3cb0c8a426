"""A statement to one person: a function of their own row and of what is public, by its arguments.

The table is no argument. What a release costs somebody from their own row is the release's to know (``KnowsOwnRow``);
one that only promises states its promise; one that does neither is refused, because any other number would be a
function of other people's rows.

Statements in bulk are one page per person in a folder that only its owner can read, and an index of them. Files are
named by a keyed hash with a key that is made for the run and thrown away: an id may be any string, and a name that
travels with its page tells nothing of the order or the number of people. Which page is whose stands in ``index.csv``,
which stays with the curator.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Formatter
from typing import Any, Literal, cast

import numpy as np
from jinja2 import Environment, StrictUndefined
from numpy.typing import ArrayLike

from perinstance._version import __version__
from perinstance.checked_numbers import is_unicode, probability
from perinstance.data import write_losses
from perinstance.data.private_files import private_file, private_folder
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.ids import several_rows
from perinstance.pairs.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.log_ratios import KnowsOwnRow, OwnRowLoss, PublicFacts
from perinstance.releases.base.release import mechanism_of
from perinstance.shown_decimals import LARGEST, declared_text, loss_text

SMALLEST_SHOWN = 1e-4  # odds below are said to be below


@dataclass(frozen=True, slots=True)
class Wording:
    """Sentences by name, with places for numbers; a translation has those of the English one, no more and no fewer."""

    sentences: Mapping[str, str]

    def __post_init__(self) -> None:
        english = _english()
        missing = sorted(set(english) - set(self.sentences))
        if missing:
            raise InvalidInput(f"the wording lacks {', '.join(missing)}; copy the English one and translate it")
        for name, text in english.items():
            wanted, mine = _places(name, text), cast(object, self.sentences[name])
            if not isinstance(mine, str) or _places(name, mine) != wanted:
                raise InvalidInput(f"the sentence {name!r} must have the places {sorted(wanted)} and no others")

    @classmethod
    def english(cls) -> Wording:
        """Return the wording of this package."""
        return cls(_english())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Wording:
        """Read a translation from a JSON file."""
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise InvalidInput("the wording must be a readable JSON file of sentences by name")
        return cls(found)

    def say(self, name: str, **numbers: str) -> str:
        """Return one sentence with its numbers."""
        return self.sentences[name].format(**numbers)


def _english() -> dict[str, str]:
    return json.loads(files("perinstance.disclosure").joinpath("wording_en.json").read_text(encoding="utf-8"))


def _places(name: str, text: str) -> set[str]:
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        raise InvalidInput(f"the sentence {name!r} has a brace that is not closed") from None
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise InvalidInput(f"the sentence {name!r} must have plain places like {{epsilon}}: numbers come as text")
    return {place for _, place, _, _ in parts if place is not None}


@dataclass(frozen=True, slots=True)
class Statement(ShownAsTable):
    """What may be told to one person. It may leave the room, to that person."""

    published: str  #: what was published, in words
    epsilon: float  #: holds for this person, rounded up where it is shown
    delta: float
    kind: Kind
    promise: tuple[float, float] | None  #: what everybody was promised
    own_row: bool  #: whether epsilon follows from the person's own row; else it is the promise
    assumptions: tuple[str, ...]  #: names of sentences
    facts: PublicFacts
    log_odds: tuple[float, float] | None = None
    releases: int = 1

    def sentences(self, wording: Wording | None = None) -> tuple[str, ...]:
        """Return the statement in words, one paragraph each."""
        words, facts = Wording.english() if wording is None else wording, self.facts
        numbers = {
            "factor": _factor(self.epsilon),
            "epsilon": loss_text(self.epsilon),
            "delta": declared_text(self.delta),
            "y_bound": "" if facts.y_bound is None else declared_text(facts.y_bound),
            "people": "" if facts.people is None else f"{facts.people:,}",
        }
        told = [words.say("what", published=self.published)]
        if self.releases > 1:
            told.append(words.say("composed", count=f"{self.releases:,}"))
        told.append(words.say("loss" if math.isfinite(self.epsilon) else "no_limit", **numbers))
        if self.own_row:
            told.append(words.say("own_row"))
        if self.log_odds is not None:
            least, most = self.log_odds
            odds = math.exp(least) if least > -LARGEST else 0.0
            low = "0" if odds < SMALLEST_SHOWN else f"{math.floor(odds * 1e4) / 1e4:.4g}"  # rounded down
            told.append(words.say("log_odds", low=low, high=_factor(most)))
        if self.promise is not None and self.own_row:
            epsilon, delta = map(declared_text, self.promise)
            told.append(words.say("promise", factor=_factor(self.promise[0]), epsilon=epsilon, delta=delta))
        told += [words.say(name, **numbers) for name in self.assumptions]
        return (*told, words.say("closing", version=__version__))

    def text(self, wording: Wording | None = None) -> str:
        """Return the statement as plain text."""
        words = Wording.english() if wording is None else wording
        return "\n\n".join([words.say("title"), *self.sentences(words)]) + "\n"


def statement(
    published: Any,
    x: ArrayLike,
    y: float = 0.0,
    *,
    delta: float | None = None,
    y_bound: float | None = None,
    people: int | None = None,
) -> Statement:
    """Return what one person may be told about one release.

    Parameters
    ----------
    published
        The release (fitted or not), or the published model that ``perinstance.load_model`` returns.
    x, y
        The person's own row, as numbers, and their target. A row with names (a pandas Series, a dictionary, a table of
        one row) is taken by name where the model has names.
    delta
        Where the loss is stated; None is that of the promise, or 1e-6.
    y_bound, people
        Public facts, for releases that declare none: a bound of everybody's target, and of the number of people.

    Examples
    --------
    >>> import perinstance as pi
    >>> release = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=2.0, y_bound=5.0, fit_intercept=False, rounds=1)
    >>> told = pi.disclosure.statement(release, [0.1, 0.2], 1.0)
    >>> told.epsilon < 1.0, told.kind
    (True, 'exact')
    """
    release, words = release_of(published)
    mechanism = mechanism_of(release)
    promises = mechanism.promises and getattr(release, "epsilon", None) is not None
    promise = (float(release.epsilon), float(release.delta)) if promises else None
    at = 1e-6 if promise is None else promise[1]
    at = at if delta is None else probability("delta", delta)
    row, facts = _row(x, mechanism, release, published), PublicFacts(y_bound, people)
    try:
        target = float(y)
    except (TypeError, ValueError):
        raise InvalidInput("a person's target must be a number") from None
    if isinstance(release, KnowsOwnRow) and getattr(release, "rows_per_person", None) is None:
        found: OwnRowLoss = release.own_row_loss(row, target, at, facts)
        capped = promise is not None and at >= promise[1] and promise[0] < found.epsilon
        epsilon = promise[0] if capped and promise is not None else found.epsilon
        kind: Kind = "upper" if capped else found.kind
        return Statement(words, epsilon, at, kind, promise, True, found.assumptions, facts, found.log_odds)
    if promise is None:
        raise RefusedModel(
            f"{mechanism.name} promises nothing, and what it costs a person depends on the others' rows: there is "
            "nothing that may be told. Publish with a promise"
        )
    if at < promise[1]:
        raise InvalidInput(f"the promise is made at delta = {declared_text(promise[1])}; leave delta away")
    return Statement(words, promise[0], promise[1], "upper", promise, False, (), facts)


def together(statements: Sequence[Statement]) -> Statement:
    """Return what holds for everything that was published about the same person: epsilons and deltas add up.

    That is so whether or not a release was chosen after looking at another.
    """
    if not statements:
        raise InvalidInput("statements must be a list of at least one statement to the same person")
    if len(statements) == 1:
        return statements[0]
    epsilon, delta = (math.fsum(getattr(one, name) for one in statements) for name in ("epsilon", "delta"))
    seen = dict.fromkeys(name for one in statements for name in one.assumptions)
    facts = statements[0].facts
    if any(one.facts != facts for one in statements):
        raise InvalidInput("statements that are put together must be made from the same public facts")
    return Statement(
        published="; ".join(one.published for one in statements),
        epsilon=math.nextafter(epsilon, math.inf),
        delta=math.nextafter(delta, math.inf),
        kind=weakest("upper", [one.kind for one in statements]),
        promise=None,
        own_row=all(one.own_row for one in statements),
        assumptions=tuple(seen),
        facts=facts,
        releases=sum(one.releases for one in statements),
    )


def release_of(published: Any) -> tuple[Any, str]:
    """Return a release with what was published, in words; one is made again from the declarations in a model file."""
    if not hasattr(published, "document"):
        words = mechanism_of(published).words
        return published, "".join(w if isinstance(w, str) else declared_text(w) for w in words)
    return published.release(), published.published


def _row(x: Any, mechanism: Any, release: Any, published: Any) -> Any:
    """Return the person's numbers, by name where they have names; a missing cell may be where the release promises."""
    names = getattr(published, "features", getattr(published, "feature_names_in_", None))
    table = hasattr(x, "columns")  # a table of one row; else a mapping, or a pandas Series
    labels = (getattr(x, "column_names", None) or list(x.columns)) if table else x.keys() if hasattr(x, "keys") else ()
    own = {label: at for at, label in enumerate(labels) if isinstance(label, str)}
    if own and names is None and isinstance(x, Mapping):
        raise InvalidInput("the model does not name its features; pass the row as numbers in their order")
    if own:  # a row without names is in the model's order already
        x = list(x.values()) if isinstance(x, Mapping) else np.asarray(x).ravel()
    if own and names is not None:
        if len(own) != len(x) or sorted(own) != sorted(names):
            raise InvalidInput(f"the row must have the {len(names)} features of the model, by their names")
        x = [x[own[name]] for name in names]
    try:
        row = np.asarray(x, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidInput("a person's row must be numbers; use the recipe of the model, or encode them") from None
    if not mechanism.promises and not np.isfinite(row).all():
        raise InvalidInput("a person's row must be finite numbers, got NaN or infinity")
    expected = getattr(release, "n_features_in_", len(row))
    if len(row) != expected:
        raise InvalidInput(f"the release has {expected} features, the row {len(row)}; pass those of the model")
    return row


def _factor(epsilon: float) -> str:
    return loss_text(math.nextafter(math.exp(epsilon), math.inf)) if epsilon < LARGEST else "∞"


Format = Literal["html", "text"]
ENDINGS = {"html": ".html", "text": ".txt"}
INDEX = "index.csv"
STYLE = (
    "body{font:1.05rem/1.6 Georgia,serif;color:#222;background:#fff;margin:0}main{max-width:38rem;margin:3rem auto;"
    "padding:0 1.2rem}h1{font-size:1.5rem;line-height:1.3}.person{color:#555;border-bottom:1px solid #ccc;"
    "padding-bottom:.6rem}@media (prefers-color-scheme:dark){body{color:#ddd;background:#181818}.person{color:#aaa}}"
)
_OURS = re.compile(r"[0-9a-f]{32}\.(html|txt)")


def write_statements(
    folder: str | os.PathLike[str],
    ids: Sequence[str],
    statements: Iterable[Statement],
    *,
    format: Format = "html",
    wording: Wording | None = None,
    again: bool = False,
) -> Path:
    """Write one page per person into a private folder; return the folder.

    A folder that holds anything is refused, unless ``again``: then the pages of an earlier run are replaced. Whatever
    else lies there is left alone.
    """
    if format not in ENDINGS:
        raise InvalidInput(f"format must be one of {tuple(ENDINGS)}, got something else")
    if not all(is_unicode(str(person)) for person in ids):
        raise InvalidInput("an id holds half a character (a lone surrogate), which no file can; correct it")
    repeated = sum(count > 1 for count in Counter(ids).values())
    if repeated:
        raise several_rows(repeated)
    place, words = private_folder(folder), Wording.english() if wording is None else wording
    before = [path for path in place.iterdir() if _OURS.fullmatch(path.name) or path.name == INDEX]
    if any(place.iterdir()) and not again:
        raise InvalidInput(f"the folder {place.name!r} is not empty; pass again=True to replace earlier statements")
    # no script, no remote asset, everything escaped
    template = files("perinstance.disclosure").joinpath("statement.html.j2").read_text(encoding="utf-8")
    html = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(
        template,
        {
            "language": words.say("language"),
            "title": words.say("title"),
            "style": STYLE,
            "style_hash": base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode(),
        },
    )
    key, names = secrets.token_bytes(32), []
    for person, one in zip(ids, statements, strict=True):
        digest = hmac.new(key, str(person).encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]
        page = one.text(words) if format == "text" else html.render(person=str(person), sentences=one.sentences(words))
        names.append(digest + ENDINGS[format])
        with private_file(place / names[-1]) as file:
            file.write(page.encode("utf-8", "replace"))
    write_losses(place / INDEX, [{"id": [str(person) for person in ids], "file": names}])
    for path in before:
        if path.name != INDEX:
            path.unlink()
    return place
