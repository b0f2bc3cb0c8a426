"""What must hold for every release of the catalogue, whatever it publishes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sklearn.base import clone

import perinstance as pi
from perinstance.checked_numbers import is_number
from perinstance.engines import Local
from perinstance.errors import InvalidInput
from perinstance.pairs.kinds import KINDS
from perinstance.releases.base.release import Mechanism
from perinstance.report import figures

from .catalogue import CATALOGUE, PROMISED

every = pytest.mark.parametrize("name", CATALOGUE)
repeatable = pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in PROMISED])


def test_the_catalogue_is_complete():
    public = {getattr(pi.releases, name) for name in pi.releases.__all__ if name not in ("Release", "private_gram")}
    assert {type(example.release) for example in CATALOGUE.values()} == public


@every
def test_it_describes_itself(name):
    release = CATALOGUE[name].release
    mechanism = release.mechanism()
    assert isinstance(release, pi.releases.Release) and isinstance(mechanism, Mechanism)
    assert mechanism.name == type(release).__name__
    assert mechanism.words
    assert mechanism.promises == (name in PROMISED)
    assert mechanism.scale > 0 or mechanism.promises  # a promise chooses its noise itself
    assert mechanism.needs_target == (CATALOGUE[name].y is not None)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.scale = 1.0


@every
def test_it_is_cloned_with_its_parameters(name):
    release = CATALOGUE[name].release
    assert repr(clone(release)) == repr(release)


@every
def test_losses_hold_at_their_delta(name):
    release, X, y = CATALOGUE[name]
    audit = pi.audit(release, X, y, delta=1e-5)
    assert repr(audit.fit) == f"{type(audit.fit).__name__}(confidential)"  # a repr ends up in logs
    assert len(audit) == len(X) and np.isfinite(audit.losses).all() and (audit.losses >= 0).all()
    assert set(np.asarray(audit.kind)) <= set(KINDS)
    assert (audit.pairs.delta(audit.losses) <= 1e-5 * (1 + 1e-9)).all()
    assert (audit.pairs.epsilon(1e-5) == audit.losses).all()
    assert (audit.pairs.epsilon(1e-7) >= audit.losses).all()


@repeatable
def test_blocks_and_threads_do_not_matter(name):
    release, X, y = CATALOGUE[name]
    whole = pi.audit(release, X, y)
    parts = pi.audit(release, X, y, engine=Local(threads=2, block_bytes=400))
    assert parts.losses == pytest.approx(whole.losses, rel=1e-8)


@repeatable
def test_leaving_and_joining_are_one_pair(name):
    """Somebody's loss inside the table is their loss as an outsider who joins the others."""
    release, X, y = CATALOGUE[name]
    inside = pi.audit(release, X, y, method="exact")
    for i in (0, int(np.argmax(inside.losses))):
        others = np.arange(len(X)) != i
        who = (X[[i]],) if y is None else (X[[i]], y[[i]])
        joins = pi.audit(release, X[others], None if y is None else y[others], outsiders=who, method="exact")
        assert joins.losses[0] == pytest.approx(inside.losses[i], rel=1e-6)


@every
def test_what_it_publishes_lies_on_the_grid(name):
    release, X, y = CATALOGUE[name]
    fitted = clone(release).fit(X, y)
    numbers = [np.ravel(getattr(fitted, a)) for a in ("coef_", "intercept_", "value_", "values_") if hasattr(fitted, a)]
    published = np.concatenate(numbers).astype(float)
    grid = getattr(release, "grid", None)
    assert len(published) and np.isfinite(published).all()
    if grid is not None:
        assert (published / grid == np.round(published / grid)).all()


@every
def test_it_has_a_report(name, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "FACTORS", figures.FACTORS[::12])  # three in place of 25
    release, X, y = CATALOGUE[name]
    page = pi.audit(release, X, y).to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    first = next(word for word in release.mechanism().words if isinstance(word, str))
    assert first.strip() in page


@every
def test_texts_and_truth_values_are_no_numbers(name):
    """``float("1")`` and ``float(True)`` would be."""
    release, X, y = CATALOGUE[name]
    numbers = {key: value for key, value in release.get_params(deep=False).items() if is_number(value)}
    assert numbers
    for key, value in numbers.items():
        for wrong in (str(value), True):
            with pytest.raises(InvalidInput, match=key):
                clone(release).set_params(**{key: wrong}).fit(X, *(() if y is None else (y,)))
