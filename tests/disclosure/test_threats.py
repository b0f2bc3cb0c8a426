"""THREATS T1 to T5 replayed against everything that leaves: canaries, permissions, errors, logs, selection."""

from __future__ import annotations

import inspect
import json
import logging

import numpy as np
import pytest

import perinstance as pi
from perinstance.disclosure import PublishedLosses, publish_losses, regulator_summary, statement, write_statements
from perinstance.errors import PerinstanceError

CANARY = 8731.4159
RELEASE = pi.AdaSSP(epsilon=1.0, x_bound=1e4, y_bound=1e4, rounds=2)


def table():
    X = np.abs(np.random.default_rng(0).normal(size=(40, 3)))
    X[7, 1] = CANARY
    return X, X.sum(1)


def everything_that_leaves(model, X, y, folder):
    told = [statement(model, x, t) for x, t in zip(X, y, strict=True)]
    place = write_statements(folder, [f"p{i}" for i in range(len(y))], told)
    pages = [path.read_text() for path in sorted(place.glob("*.html"))]
    texts = [one.text() for one in told] + [repr(one) for one in told] + [one._repr_html_() for one in told]
    return pages, texts, json.dumps(regulator_summary(model))


def test_t1_no_cell_and_nobody_elses_number_leaves(tmp_path):
    X, y = table()
    model = RELEASE.fit(X, y)
    pages, texts, summary = everything_that_leaves(model, X, y, tmp_path / "out")
    audit = pi.audit(RELEASE, X, y, method="estimate")
    private = [f"{CANARY:.2f}", *(f"{v:.6f}" for v in audit.losses[:5]), *(f"{v:.6f}" for v in audit.leverages[:5])]
    for text in (*pages, *texts, summary):
        assert not [word for word in private if word in text]
    assert len(set(pages)) > 1 and "40" not in summary.replace("1e-40", "")  # the number of people is not public


def test_t1_nothing_that_leaves_can_be_given_a_table():
    """By the arguments: one row and what is public."""
    assert list(inspect.signature(statement).parameters) == ["published", "x", "y", "delta", "y_bound", "people"]
    assert list(inspect.signature(regulator_summary).parameters) == ["published", "losses"]
    assert list(inspect.signature(PublishedLosses.own_bound).parameters) == ["self", "x", "y"]


POSTERIOR = pi.PosteriorSample(alpha=1e6)


def published_losses(X, y):
    """Everything of a publication that can be seen, in words, and the record."""
    model = POSTERIOR.fit(X, y)
    told = publish_losses(pi.audit(POSTERIOR, X, y), model, X, y, epsilon=1.0, x_bound=1e4)
    texts = [told.to_json(), repr(told), told._repr_html_(), json.dumps(regulator_summary(model, told))]
    return texts + [str(told.quantile(share)) for share in (0.5, 0.9)], told


@pytest.mark.usefixtures("fixed_noise")  # six digits of a sum are met by chance in one run of thirty thousand
def test_t1_published_losses_hold_noisy_numbers_only():
    """No cell, no loss, no exact count or sum of the table: each number of the record is drawn or declared."""
    X, y = table()
    texts, told = published_losses(X, y)
    audit = pi.audit(POSTERIOR, X, y)
    sums = [f"{v:.4f}" for v in (X.T @ X).ravel()]
    private = [str(CANARY), f"{CANARY:.2f}", *sums, *(f"{v:.6g}" for v in (audit.losses.max(), audit.leverages.max()))]
    for text in texts:
        assert not [word for word in private if word in text]
    assert not any(count.is_integer() for count in told.counts)  # with noise on a grid of 2^-40, one in 10^12 would be
    again = published_losses(X, y)[1]
    assert told.counts != again.counts and not np.array_equal(told.terms.look.matrix, again.terms.look.matrix)


def test_t3_t4_publishing_losses_says_nothing_beside(caplog):
    X, y = table()
    with caplog.at_level(logging.DEBUG):
        published_losses(X, y)
    assert "8731" not in " ".join(record.getMessage() for record in caplog.records)
    output = pi.OutputPerturbation(scale=1.0)
    audit = pi.audit(output, X, y)
    for bad in ({"x_bound": 1.0}, {}, {"x_bound": "HIV+"}, {"x_bound": 1e5, "edges": ["HIV+"]}):
        with pytest.raises(PerinstanceError) as caught:
            publish_losses(audit, [0.0] * 4, X, y, epsilon=1.0, **bad)
        assert str(CANARY) not in str(caught.value) and (bad.get("x_bound") != 1.0 or "40" not in str(caught.value))


def test_t5_nobody_is_left_out_of_the_counts():
    """Whatever their loss: people of any row are counted once, in some bin."""
    X, y = table()
    X[3], y[5] = 0.0, 1e12
    told = published_losses(X, y)[1]
    assert told.people == pytest.approx(40, abs=7 * told.noise * len(told.counts) ** 0.5)


def test_t3_errors_quote_no_cell():
    for row in (["HIV+", 1.0, 2.0], [[CANARY, np.inf]], object(), [CANARY]):
        for release in (pi.NoisyMean(scale=1.0, statistic="sum"), pi.PosteriorSample(), pi.SlowScalingSum()):
            fitted = release.fit(np.ones((4, 3)), np.ones(4)) if isinstance(release, pi.PosteriorSample) else release
            try:
                statement(fitted, row, CANARY)
            except PerinstanceError as error:
                assert "HIV" not in str(error) and str(CANARY) not in str(error)
                assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)


def test_t4_logs_say_nothing(tmp_path, caplog):
    X, y = table()
    model = RELEASE.fit(X, y)
    with caplog.at_level(logging.DEBUG):
        everything_that_leaves(model, X, y, tmp_path / "out")
        pi.audit(RELEASE, X, y).realised(model, X, y)
        pi.audit(RELEASE, X, y).deletions(0.5)
    told = " ".join(record.getMessage() for record in caplog.records)
    assert "8731" not in told and "p7" not in told


def test_t5_everybody_gets_a_page_whatever_their_loss(tmp_path):
    """Pages are equal but for the person's own number and name: nobody is left out, marked or ranked."""
    X, y = table()
    model = RELEASE.fit(X, y)
    pages, _, _ = everything_that_leaves(model, X, y, tmp_path / "out")
    assert len(pages) == 40
    shapes = {"".join(c for c in page if not c.isdigit() and c not in ".,e-+") for page in pages}
    assert len({len(shape) for shape in shapes}) <= 3


@pytest.mark.parametrize("name", ["realised", "deletions", "deletions_together", "republished"])
def test_what_stays_inside_says_so(name):
    from perinstance.auditing import Audit

    assert "Confidential." in inspect.getdoc(getattr(Audit, name))
