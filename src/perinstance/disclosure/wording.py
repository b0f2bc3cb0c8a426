"""Words of statements as data: one sentence per name, with places for numbers; a translation is another such file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import Formatter
from types import MappingProxyType

from perinstance.errors import InvalidInput

#: The sentences that a wording must have, and what each must say.
PLACES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "language": frozenset(),
        "title": frozenset(),
        "what": frozenset({"published"}),
        "loss": frozenset({"factor", "epsilon", "delta"}),
        "no_limit": frozenset(),
        "own_row": frozenset(),
        "promise": frozenset({"factor", "epsilon", "delta"}),
        "log_odds": frozenset({"low", "high"}),
        "rows_clipped": frozenset(),
        "negative_as_zero": frozenset(),
        "targets_bounded": frozenset({"y_bound"}),
        "people_bounded": frozenset({"people"}),
        "composed": frozenset({"count"}),
        "closing": frozenset({"version"}),
    }
)


@dataclass(frozen=True, slots=True)
class Wording:
    """Sentences by name; each says exactly the numbers that it has to."""

    sentences: Mapping[str, str]

    def __post_init__(self) -> None:
        missing = sorted(set(PLACES) - set(self.sentences))
        if missing:
            raise InvalidInput(f"the wording lacks {', '.join(missing)}; copy the English one and translate it")
        for name, wanted in PLACES.items():
            text = self.sentences[name]
            if not isinstance(text, str) or _places(name, text) != wanted:
                raise InvalidInput(f"the sentence {name!r} must have the places {sorted(wanted)} and no others")

    @classmethod
    def english(cls) -> Wording:
        """Return the wording of this package."""
        return cls(json.loads(files("perinstance.disclosure").joinpath("wording_en.json").read_text(encoding="utf-8")))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Wording:
        """Read a translation from a JSON file."""
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        except (OSError, ValueError):
            raise InvalidInput("the wording must be a readable JSON file of sentences by name") from None
        if not isinstance(found, dict):
            raise InvalidInput("the wording must be a JSON file of sentences by name")
        return cls(found)

    def say(self, name: str, **numbers: str) -> str:
        """Return one sentence with its numbers."""
        return self.sentences[name].format(**{place: numbers[place] for place in PLACES[name]})


def _places(name: str, text: str) -> frozenset[str]:
    try:
        parts = list(Formatter().parse(text))
    except ValueError:
        raise InvalidInput(f"the sentence {name!r} has a brace that is not closed") from None
    if any(spec or conversion for _, _, spec, conversion in parts):
        raise InvalidInput(f"the sentence {name!r} must have plain places like {{epsilon}}: numbers come as text")
    return frozenset(place for _, place, _, _ in parts if place is not None)
