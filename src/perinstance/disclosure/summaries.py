"""For a regulator: what was published and what it promises, as JSON with a schema; public things only.

The summary is made from a release or a published model, never from an audit: losses, their quantiles or the number of
people are a release of their own (``publish_losses``).
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from perinstance._version import __version__
from perinstance.disclosure.published_losses import PublishedLosses
from perinstance.errors import InvalidInput
from perinstance.releases.base.model_document import NEIGHBOURS, document_of

FORMAT, FORMAT_VERSION = "perinstance.summary", 1


def summary_schema() -> dict[str, Any]:
    """Return the JSON schema of the summary."""
    return json.loads(files("perinstance.disclosure").joinpath("summary.schema.json").read_text(encoding="utf-8"))


def regulator_summary(published: Any, losses: PublishedLosses | None = None) -> dict[str, Any]:
    """Return what a regulator asks about one release: versions, mechanism, promise, bounds, what may be told.

    ``published`` is a fitted release or a published model (``perinstance.load_model``), ``losses`` what
    ``publish_losses`` put out about it, if it did.
    """
    if hasattr(published, "losses"):
        raise InvalidInput("an audit is confidential; pass the fitted release, or the published model")
    if losses is not None and not isinstance(losses, PublishedLosses):
        raise InvalidInput(f"losses must be what publish_losses gave, got {type(losses).__name__}; others stay inside")
    document = published.document if hasattr(published, "document") else document_of(published)
    promise = document["promise"]
    if losses is not None and losses.method != document["method"]:
        raise InvalidInput(f"these are losses of {losses.method}, and {document['method']} published this model")
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "perinstance": __version__,
        "written_by": document["perinstance"],
        "mechanism": {"name": document["method"], "published": document["published"], "grid": document["grid"]},
        "neighbours": NEIGHBOURS if promise is None else promise.get("neighbours", NEIGHBOURS),
        "promise": None if promise is None else {name: promise[name] for name in ("epsilon", "delta")},
        "bounds": document["bounds"],
        "numbers_published": _count(document["model"]) + _count(document["released"]),
        "losses_published": None if losses is None else losses.summary(),
    }


def _count(value: Any) -> int:
    """Count the numbers in what was published; names and flags are none."""
    if isinstance(value, dict):
        return sum(_count(one) for name, one in value.items() if name != "points")
    if isinstance(value, list):
        return sum(_count(one) for one in value)
    return int(isinstance(value, int | float) and not isinstance(value, bool))
