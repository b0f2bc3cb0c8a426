"""Nothing is more certain than its weakest part: every place where kinds meet, with all mixes of kinds."""

from __future__ import annotations

import dataclasses
import io
import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import perinstance as pi
from perinstance import analysis, plots
from perinstance.analysis.group_privacy import chain
from perinstance.cli import terminal
from perinstance.errors import InvalidInput
from perinstance.folds.sweep import People
from perinstance.pairs import (
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    Pairs,
    PosteriorSamplePair,
    compose,
    from_columns,
)
from perinstance.pairs.kinds import KINDS, is_bound, kind_codes, weakest
from perinstance.report import reported_losses as exposed_people
from perinstance.report.content import gather

N = 4
MAKE = {
    "shift": lambda kind: GaussianShift([0.1, 0.2, 0.0, 1.0], kind),
    "posterior": lambda kind: PosteriorSamplePair([0.01, 0.1, 0.0, 0.2], [1.0, 0.5, 0.0, 2.0], kind),
    "laplace": lambda kind: LaplaceShift([0.1, 0.3, 0.0, 0.2], kind),
    "objective": lambda kind: ObjectivePair([0.1] * N, [1.0] * N, [1.0] * N, [0.02] * N, kind),
    "gaussian": lambda kind: GeneralGaussian([[0.1]] * N, [[0.3]] * N, kind),
}
kinds_of_people = st.lists(st.sampled_from(KINDS), min_size=N, max_size=N).map(np.array)
releases = st.lists(
    st.tuples(st.sampled_from(["shift", "posterior", "laplace"]), kinds_of_people), min_size=1, max_size=3
)


def strength(kind) -> int:
    return KINDS.index(str(kind))


def not_stronger(kind, *parts) -> None:
    """A kind is no stronger than the weakest of its parts (kinds, arrays of kinds or pairs)."""
    words = [word for part in parts for word in np.atleast_1d(part.kinds if isinstance(part, Pairs) else part)]
    assert strength(kind) >= max(strength(word) for word in words), (kind, words)


def test_the_weakest():
    assert weakest() == "exact" and weakest("upper", ["exact", "estimate"]) == "estimate"
    assert [is_bound(kind) for kind in KINDS] == [True, True, False]
    for wrong in ("better", ["exact", "sure"]):
        with pytest.raises(InvalidInput):
            weakest(wrong)
    for codes in ([0, 3], [-1, 0], [0.5, 0.0]):
        with pytest.raises(InvalidInput):
            kind_codes(codes, 2)


@settings(max_examples=60)
@given(releases)
def test_sums_slices_and_columns(drawn):
    parts = [MAKE[name](kinds) for name, kinds in drawn]
    total = compose(parts)
    by_person = np.array([max(column, key=strength) for column in zip(*(kinds for _, kinds in drawn), strict=True)])
    for made in (total, from_columns(total.to_columns(), total.schema()), type(total).concatenate([total, total])[:N]):
        for one, parts_of_one in zip(made.kinds, by_person, strict=True):
            not_stronger(one, parts_of_one)
        not_stronger(made.kind, by_person)
    for index in (slice(1, 3), [0, 3], np.array([True, False, True, False]), 2):
        expected = by_person[index] if not isinstance(index, int) else by_person[[index]]
        for one, part in zip(total[index].kinds, expected, strict=True):
            not_stronger(one, part)
    summed = parts[0]
    for part in parts[1:]:
        summed = summed + part
    not_stronger(summed.kind, *parts)
    more = total.with_noise(2.0)
    if more is not None:
        assert (more.kinds == total.kinds).all()


@pytest.mark.parametrize("name", MAKE)
def test_a_pair_keeps_its_kinds(name):
    kinds = np.array(["exact", "upper", "estimate", "upper"])
    pairs = MAKE[name](kinds)
    assert (pairs.kinds == kinds).all() and pairs.kind == "estimate" and pairs[:2].kind == "upper"
    assert (from_columns(pairs.to_columns(), pairs.schema()).kinds == kinds).all()
    noisier = pairs.with_noise(3.0)
    assert noisier is None or (noisier.kinds == kinds).all()


@settings(max_examples=40)
@given(releases, st.booleans())
def test_composition_odometer_and_filter(drawn, fixed):
    parts = [MAKE[name](kinds) for name, kinds in drawn]
    found = analysis.composition(parts)
    not_stronger(found.kind, *parts)
    not_stronger(found.kind_of_bounds, "upper", *parts)
    reading = analysis.odometer(parts, fixed_in_advance=fixed)
    not_stronger(reading.kind, *parts)
    estimated = any("estimate" in kinds for _, kinds in drawn)
    assert reading.guarantee == (fixed and not estimated)
    account = analysis.RenyiFilter.of(N, 50.0, 1e-6)
    used = []
    for part in parts:
        taken = account.admits(part) & np.array([True, True, False, True])
        account = account.charge(part, taken)
        used.extend(part.kinds[taken])
        not_stronger(account.kind, "upper", *used)
    assert (account.kind == "estimate") == ("estimate" in used)
    if estimated:
        for text in (str(found), *reading.assumptions):
            forbidden(text)
    if account.kind == "estimate":
        for text in account.assumptions:
            forbidden(text)


@pytest.mark.parametrize("kind", KINDS)
def test_analyses_of_losses(kind):
    pairs = GaussianShift([0.1, 0.3, 0.5], ["exact", kind, "exact"])
    losses = pairs.epsilon(1e-6)
    not_stronger(analysis.variants(pairs, 1e-6).kind, pairs)
    not_stronger(analysis.identification(pairs).kind, pairs)
    not_stronger(analysis.odds_bound(losses, 1e-6, kind).kind, "upper", kind)
    not_stronger(analysis.moments(losses).kind, "upper")  # numbers that nobody vouches for
    not_stronger(analysis.moments(losses, kind=kind).kind, kind)
    not_stronger(analysis.bootstrap(losses, draws=5).kind, "estimate")
    not_stronger(chain(pairs, 1e-6).kind, "upper", pairs)
    not_stronger(analysis.chain_bound(losses, 1e-6, kind).kind, "upper", kind)
    for population in (False, True):
        bound = analysis.generalization(losses, 1e-6, population=population, kind=kind)
        not_stronger(bound.kind, "upper" if population else "estimate", kind)


@dataclasses.dataclass
class Stub:
    """A release whose people have kinds in turn."""

    kinds: list[str]

    def confidential_fit(self, sweep, method="auto"):
        return self.kinds.pop(0)

    def people(self, fit, block, inside=True):
        n = len(block.y)
        return People(np.ones(n), np.ones(n), GaussianShift(np.full(n, 0.3), fit))


@pytest.mark.parametrize("kinds", [["exact", "upper"], ["estimate", "exact"], ["upper", "estimate", "exact"]])
def test_random_data(kinds):
    table = (np.ones((3, 1)), np.ones(3))
    found = analysis.one_person(Stub(list(kinds)), [1.0], 0.0, [table] * len(kinds))
    assert found.kind == max(kinds, key=strength)
    drawn = analysis.over_random_tables(Stub(list(kinds)), lambda rng: table, ([[1.0]], [0.0]), draws=len(kinds))
    assert drawn.kind == max(kinds, key=strength)
    for number in (found.mean(), found.quantile(0.5), found.moments(), drawn.mean()):
        not_stronger(number.kind, "estimate")


def audit_of(kinds):
    """An audit whose pairs have these kinds."""
    rng = np.random.default_rng(0)
    n = len(kinds)
    answer = pi.audit(pi.OutputPerturbation(scale=3.0), rng.standard_normal((n, 2)), rng.standard_normal(n))
    return dataclasses.replace(answer, pairs=GaussianShift(answer.pairs.distance, kinds))


@settings(max_examples=12)
@given(st.lists(st.sampled_from(KINDS), min_size=60, max_size=60), st.integers(1, 5))
def test_an_audit_and_its_groups(kinds, groups):
    audit = audit_of(kinds)
    labels = np.arange(60) % groups
    not_stronger(audit.summary().kind, kinds)
    not_stronger(analysis.moments(audit).kind, kinds)
    not_stronger(analysis.variants(audit).kind, kinds)
    assert list(audit.columns()["kind"]) == list(audit.kind) == kinds
    table = audit.by(labels)
    for group, kind in zip(table["group"], table["kind"], strict=True):
        not_stronger(kind, np.array(kinds)[labels == group])
    record = terminal.audit_record(audit, terminal.Told())
    not_stronger(record["kind"], kinds)
    assert record["kinds"] == {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def forbidden(text: str) -> None:
    """Words that may not stand by an estimate; "not a guarantee" says the opposite."""
    said = re.sub(r"not a guarantee|no guarantee", "", text)
    found = re.search(r"\b(guarantee\w*|exact\w*|at most|holds|promise\w*|no test can)\b", said, re.IGNORECASE)
    assert found is None, (found.group(), text)


def words_of(audit):
    content = gather(audit, groups=["a", "b"] * (len(audit) // 2))
    yield content.verdicts[0]
    for card in content.cards:
        yield f"{card.name} {card.value} {card.unit}"
    for section in content.sections:
        yield from (section.lead, section.caption, str(section.figure or ""))
        for table in section.tables:
            yield table.lead
    yield exposed_people.fragment(audit)
    out = io.StringIO()
    terminal.show_audit(audit, Console(file=out, width=200), terminal.Told())
    yield out.getvalue()
    yield str(audit.summary())
    axes = plots.distribution(audit)
    yield axes.get_title()
    plt.close(axes.figure)


def test_words_beside_estimates():
    audit = audit_of(["estimate"] * 60)
    for text in words_of(audit):
        forbidden(text)
    assert any("Estimate" in text for text in words_of(audit))


def test_words_beside_upper_bounds_do_not_say_exact():
    for text in words_of(audit_of(["upper"] * 60)):
        assert re.search(r"\bexact", text, re.IGNORECASE) is None, text


def test_words_beside_exact_losses():
    text = " ".join(words_of(audit_of(["exact"] * 60)))
    assert "lost at most" in text and "Exact power" in text and "60 of 60 answers are exact" in text


def test_a_recheck_has_the_weaker_of_two_kinds():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((20, 2)), rng.standard_normal(20)
    answer = pi.audit(pi.OutputPerturbation(scale=3.0), X, y)
    for kind in KINDS:
        weaker = dataclasses.replace(answer, pairs=GaussianShift(answer.pairs.distance, kind))
        assert {check.kind for check in weaker.recheck(X, y)} == {kind}


@pytest.mark.parametrize("name", analysis.__all__)
def test_every_record_of_an_analysis_says_how_certain_it_is(name):
    thing = getattr(analysis, name)
    if isinstance(thing, type) and name not in ("KeyQuantity", "PrivateBound"):  # public plans, not answers
        assert "kind" in thing.__dataclass_fields__
