"""The page as markup: structure, policy, permissions, and what hostile names can(not) do to it."""

from __future__ import annotations

import html
import os
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.report import render
from tests.report.conftest import small_audit

REASONS = ("rare features and badly predicted", "neither stands out", "rare features", "badly predicted")

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-->]]></style></svg></main>",
    "{{ 7*7 }}{% raw %}",
    "&lt;b&gt;&amp;#60;",
    "\u202eevil\u2066",
    "nul\x00\x01\x1b[31m",
    '=HYPERLINK("http://x")',
    "x" * 1_000_000,
    "\ud800".encode("utf-16", "surrogatepass").decode("utf-16", "replace"),
    "javascript:alert(1)",
    "\n\r\t",
    "e\u0301" * 50,
]


class Skeleton(HTMLParser):
    """The tags and attribute names of a page, without its texts and values."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(name for name, _ in attrs)))


def skeleton(page: str) -> list[tuple[str, tuple[str, ...]]]:
    parser = Skeleton()
    parser.feed(page)
    return parser.tags


def hostile_names(count: int) -> list[str]:
    random.seed(5)
    names = [f"{random.choice(HOSTILE)}{i}" for i in range(count)]
    names[: len(HOSTILE)] = HOSTILE
    return names


def test_five_hundred_hostile_ids_and_groups_leave_the_structure_alone():
    n = 500
    plain = small_audit(n, ids=[f"p{i}" for i in range(n)])
    hostile = small_audit(n, ids=[f"{i}{name}" for i, name in enumerate(hostile_names(n))])
    groups = np.arange(n) % 7
    page = render(plain, groups=[f"g{g}" for g in groups], title="t")
    other = render(hostile, groups=[HOSTILE[g] for g in groups], title=HOSTILE[0])
    assert skeleton(other) == skeleton(page)
    assert "\x00" not in other and "\u202e" not in other
    assert len(other) < 2 * len(page)


def test_hostile_column_names_leave_the_structure_alone():
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(30, 100)), rng.normal(size=30)
    release = pi.PosteriorSample(alpha=1.0, gamma=0.1)
    names = [f"{k}{name[:1000]}" for k, name in enumerate(hostile_names(100))]
    plain = render(pi.audit(release, pd.DataFrame(X, columns=[f"c{k}" for k in range(100)]), y))
    hostile = render(pi.audit(release, pd.DataFrame(X, columns=names), y), command=f"perinstance audit {HOSTILE[1]}")
    assert skeleton(hostile) == skeleton(plain)


def test_no_script_no_network_no_inline_style(page):
    text = page.read_text()
    assert re.search(r"default-src 'none'; style-src 'sha256-[A-Za-z0-9+/=]+'", text)
    assert "<script" not in text and " style=" not in text and "@import" not in text and "url(" not in text
    outside = re.findall(r"(?:href|src|xlink:href|action)=\"([^\"]*)\"", text)
    assert all(target.startswith("#") for target in outside)
    assert not re.search(r"\son[a-z]+=", text)


def test_too_few_people_cannot_be_redacted():
    with pytest.raises(InvalidInput, match="at least 40 people, got 20"):
        render(small_audit(20), redact=True)


def test_tiny_tables_and_every_linear_release_have_a_report():
    for n in (1, 2, 5):
        assert "Confidential" in render(small_audit(n, d=2))
    for release in (pi.OutputPerturbation(scale=2.0), pi.ObjectivePerturbation(scale=2.0), pi.PosteriorSample(0.0)):
        assert render(small_audit(40, release=release)).count("<svg") >= 4


def test_infinite_losses_are_said():
    X = np.eye(3)
    audit = pi.audit(pi.PosteriorSample(alpha=0.0, gamma=1.0), X, np.ones(3))
    page = render(audit)
    assert "∞" in page and not re.search(r"\bnan\b", shown_text(page), flags=re.I)


def shown_text(page: str) -> str:
    """What a reader reads, numbers masked."""
    text = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    text = html.unescape(re.sub(r"<[^>]+>", "\n", text))
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    return "\n".join(re.sub(r"\d[\d.,eE+-]*%?|∞", "#", line) for line in lines if line) + "\n"


def test_the_text_of_the_page_is_the_one_we_mean(page):
    """A snapshot with numbers masked. Read the difference; when it is meant, write the file anew with SNAPSHOT=1."""
    snapshot = Path(__file__).with_name("snapshot.txt")
    # Axis ticks and the reasons of single people hang on the numbers: only texts with words in them are kept.
    lines = [line for line in shown_text(page.read_text()).splitlines() if re.search(r"[a-z]{3}", line)]
    lines = [line for line in lines if line not in REASONS and not line.startswith(("row #", "ε = #"))]
    text = "\n".join(lines) + "\n"
    if os.environ.get("SNAPSHOT"):
        snapshot.write_text(text)
    assert text == snapshot.read_text()


def test_a_report_counts_people_and_says_what_a_loss_is_of(tmp_path):
    rng = np.random.default_rng(0)
    X, ids = rng.normal(size=(60, 2)), np.repeat(np.arange(30), 2)
    audit = pi.audit(pi.PosteriorSample(), X, X @ [1.0, 2.0], ids=ids)
    text = shown_text(audit.to_html(tmp_path / "r.html").read_text())
    assert "# people, # rows" in text and "differ by all rows of one person" in text
    assert "Every row is a person" not in text
