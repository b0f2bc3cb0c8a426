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
    document = _document(published)
    if losses is not None and not isinstance(losses, PublishedLosses):
        raise InvalidInput(f"losses must be what publish_losses gave, got {type(losses).__name__}; others stay inside")
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


def _document(published: Any) -> dict[str, Any]:
    """Return what a fitted release, or a published model, tells everybody."""
    if hasattr(published, "losses"):
        raise InvalidInput("an audit is confidential; pass the fitted release, or the published model")
    return published.document if hasattr(published, "document") else document_of(published)


def _count(value: Any) -> int:
    """Count the numbers in what was published; names and flags are none."""
    if isinstance(value, dict):
        return sum(_count(one) for name, one in value.items() if name != "points")
    if isinstance(value, list):
        return sum(_count(one) for one in value)
    return int(isinstance(value, int | float) and not isinstance(value, bool))


#: The layout of an entry of the deployments registry: its schema as of this commit, written as text (``test_export``).
REGISTRY_SCHEMA = "opendp/deployments-registry-data, schemas/deployments-schema.yaml at 12ff7fce"
TO_FILL_IN = "FILL IN"
#: how every release of this package is deployed
CENTRAL = {
    "model_name": "Central",
    "model_name_description": "a curator holds the rows, and one draw is published",
    "actors": f"{TO_FILL_IN}: who sees the rows, and who the published model",
    "release_type": "One release",
    "release_type_description": f"{TO_FILL_IN}: further uses of these rows that are planned",
    "data_source_type": "Static",
    "access_type": "Non-interactive",
}


def registry_entry(published: Any) -> dict[str, Any]:
    """Return an entry of the deployments registry about one published model; who publishes, and why, is to fill in.

    ``published`` is a fitted release or a published model (``perinstance.load_model``) that promises something.
    """
    document = _document(published)
    promise = document["promise"]
    if promise is None:
        raise InvalidInput(
            "this release promises nothing to everybody, and a registry lists promises; publish with AdaSSP or AdaOPS"
        )
    neighbours, unit = promise.get("neighbours", NEIGHBOURS), "id" if "rows_per_person" in promise else "row"
    what = f"{document['method']} of {document['target'] or 'a target'}"
    library = f"perinstance {document['perinstance']}"
    exact = f"drawn exactly from the operating system's randomness, rounded to the public grid {document['grid']:g}"
    recipe, declared, bounds = (
        json.dumps(document[name], ensure_ascii=False) for name in ("recipe", "declared", "bounds")
    )
    return {
        "url_slug": f"{TO_FILL_IN}: letters and hyphens of a stable address",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "product": {
                "name": what,
                "data_curators": [f"{TO_FILL_IN}: who publishes"],
                "intended_use": f"{TO_FILL_IN}: what the model is for",
                "data_product_type": "Machine learning model",
                "data_product_region": f"{TO_FILL_IN}: where the people live, or whose law applies",
                "description": f"{what}: {document['n_features']} coefficients",
                "publication_date": f"{TO_FILL_IN}: year-month-day",
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"rows within declared bounds {bounds}; what lies beyond is clipped to them",
                "unprotected_quantities": "names and number of the columns; declared bounds and parameters",
            },
            "privacy_loss": {
                "privacy_unit": f"{TO_FILL_IN}: what one {unit} stands for, such as one patient",
                "privacy_unit_description": f"neighbours: {neighbours}",
                "privacy_parameters": {"epsilon": promise["epsilon"], "delta": promise["delta"]},
                "privacy_parameters_description": "all parts of the mechanism are composed to this loss, rounded up",
            },
            "model": CENTRAL,
            "accounting": {
                "post_processing": "rounding to the grid; whatever is computed from the file",
                "composition": f"{TO_FILL_IN}: other releases about the same people, and their total",
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": "a public rule: " + recipe
                if document["recipe"]
                else "none",
                "mechanisms": f"{document['published']}; declared: {declared}; {library}, {exact}",
                "justification": f"{TO_FILL_IN}: why this epsilon and this unit",
            },
            "resources": {
                "notes": f"written after {REGISTRY_SCHEMA}",
                "registry_authors": [f"{TO_FILL_IN}: who fills in this entry"],
            },
        },
    }


def yaml_text(value: Any, indent: int = 0) -> str:
    """Write nested dictionaries and lists as YAML: keys plain, everything else as JSON, which YAML contains."""
    pad, lines = "  " * indent, []
    for key, one in value.items():
        if isinstance(one, dict) and one:
            lines.append(f"{pad}{json.dumps(key, ensure_ascii=False)}:\n{yaml_text(one, indent + 1)}")
        else:
            lines.append(f"{pad}{json.dumps(key, ensure_ascii=False)}: {_inline(one)}\n")
    return "".join(lines)


def _inline(value: Any) -> str:
    """Write a value as JSON; YAML 1.1 takes 1e-06 for a text, and 1.0e-06 for a number."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inline(str(key))}: {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_inline, value)) + "]"
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text
