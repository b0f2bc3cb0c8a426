"""Statements in bulk: one page per person into a folder that only its owner can read, and an index of them.

Files are named by a keyed hash with a key that is made for the run and thrown away: an id may be any string, and a
name that travels with its page tells nothing of the order or the number of people. Which page is whose stands in
``index.csv``, which stays with the curator.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal

from jinja2 import Environment, StrictUndefined

from perinstance.checked_numbers import is_unicode
from perinstance.data import write_losses
from perinstance.data.private_files import private_file, private_folder
from perinstance.disclosure.statements import Statement, Wording
from perinstance.errors import InvalidInput
from perinstance.folds.ids import several_rows

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
    key, names = secrets.token_bytes(32), []
    for person, one in zip(ids, statements, strict=True):
        digest = hmac.new(key, str(person).encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()[:32]
        page = one.text(words) if format == "text" else page_of(one, str(person), words)
        names.append(digest + ENDINGS[format])
        with private_file(place / names[-1]) as file:
            file.write(page.encode("utf-8", "replace"))
    write_losses(place / INDEX, [{"id": [str(person) for person in ids], "file": names}])
    for path in before:
        if path.name != INDEX:
            path.unlink()
    return place


def page_of(one: Statement, person: str | None, wording: Wording) -> str:
    """Return one page of HTML: no script, no remote asset, everything escaped."""
    template = files("perinstance.disclosure").joinpath("statement.html.j2").read_text(encoding="utf-8")
    page = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True).from_string(template)
    return page.render(
        language=wording.say("language"),
        title=wording.say("title"),
        person=person,
        sentences=one.sentences(wording),
        style=STYLE,
        style_hash=base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode(),
    )
