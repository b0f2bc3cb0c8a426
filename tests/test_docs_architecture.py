"""What the documentation says about the code: paths exist, public names are documented, words are the glossary's."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "perinstance"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: A path in backquotes: something with a slash, or a file by its ending. Commands and formulas have other characters.
PATH = re.compile(r"`([\w./-]*(?:/[\w./-]*|\.(?:py|pyi|toml|j2|svg|md)))`")
ROOMS = (
    "pairs",
    "models",
    "releases",
    "analysis",
    "data",
    "engines",
    "sampling",
    "auditing",
    "disclosure",
    "training",
    "published",
    "inference",
    "ledger",
    "report",
)
#: Words that only the first authors knew, and people by one sex.
JARGON = re.compile(
    r"\b(tilts?|pulls?|held|beside|stray|slip|reach|uphill|grades?|certified|her|she|hers|herself|him|he|his|himself)\b",
    re.IGNORECASE,
)


def paths(page: Path) -> set[str]:
    return set(PATH.findall(page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/glossary.md", "docs/mathematics.md", "CONTRIBUTING.md"])
def test_every_path_exists(name):
    """Below the package, below the checkout, or inside one of the floors (the table of floors)."""
    roots = [PACKAGE, ROOT, *(path for path in PACKAGE.iterdir() if path.is_dir())]
    assert not sorted(path for path in paths(ROOT / name) if not any((root / path).exists() for root in roots))


def test_the_pages_name_paths():
    """The expression finds them: else the test above would hold of anything."""
    assert {"pairs/columns.py", "tests/data/test_scan.py", "cli/", "pyproject.toml"} <= paths(
        ROOT / "docs" / "architecture.md"
    )
    assert len(paths(ROOT / "docs" / "glossary.md")) > 40


def test_the_drawing_names_what_exists():
    drawing = (ROOT / "docs" / "architecture.svg").read_text(encoding="utf-8")
    named = re.findall(r">([a-z_]+/[a-z_/]+\.py)<", drawing)
    assert len(named) == 8
    assert not [path for path in named if not (PACKAGE / path).exists()]


def test_every_floor_is_drawn():
    """The floors of the page are the folders and modules of the package."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    floors = {path.name + "/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    floors |= {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("_")}
    assert not {floor for floor in floors if f"`{floor}`" not in page}


def test_the_glossary_defines_every_term_once():
    """The terms are the bold words that begin an entry, or follow within it as a second term."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = [term.lower() for term in re.findall(r"\*\*(.+?)\*\*", page)]
    assert len(set(terms)) == len(terms)
    words = set(re.findall(r"\w+", " ".join(terms)))
    wanted = "person table block fold map sweep release mechanism pair loss δ ε direction with without kind exact upper"
    wanted += " estimate method leverage residual distance movement refit neighbour promise reading filter atom"
    wanted += " coordinates profile knot whitening certificate enclosure grid draw slack kernel"
    assert not set(wanted.split()) - words


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_documented(room):
    """A name of ``__all__`` has an entry on the API page, and a docstring to show there."""
    package = importlib.import_module(f"perinstance.{room}")
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert f"::: every name of perinstance.{room}\n" in api
    assert len(set(package.__all__)) == len(package.__all__)
    public = {name: getattr(package, name) for name in package.__all__}
    shown = {name: one for name, one in public.items() if inspect.isclass(one) or inspect.isfunction(one)}
    assert not [name for name, one in shown.items() if not inspect.getdoc(one)]


def test_what_is_documented_is_public():
    """Each entry of the API page is a name of an ``__all__``, or a room of its own."""
    import perinstance

    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for entry in re.findall(r"^::: (?:every name of )?(perinstance\S*)", api, re.MULTILINE):
        home, _, name = entry.rpartition(".")
        assert name in importlib.import_module(home).__all__, entry
    rooms = {name for name in perinstance.__all__ if inspect.ismodule(getattr(perinstance, name))}
    assert rooms == set(re.findall(r"^::: (?:every name of )?perinstance\.(\w+)\n", api, re.MULTILINE))
    for name in set(perinstance.__all__) - rooms - {"__version__"}:
        homes = [room for room in ROOMS if name in importlib.import_module(f"perinstance.{room}").__all__]
        assert homes, name


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_pages_use_words_of_the_field(page):
    """What commands print is theirs; everything else uses the glossary's words, and people are they."""
    text = re.sub(r"```console\n.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert sorted(set(JARGON.findall(text))) == []
