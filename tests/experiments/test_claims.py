"""Each experiment on small sizes: the claim it makes, and the files it writes."""

from __future__ import annotations

import csv

import pytest

from perinstance_experiments import (
    NAMES,
    covariate_shift,
    efficiency,
    fig1,
    fig2_left,
    fig2_right,
    hidden_path,
    participation,
    patients,
    script,
)
from perinstance_experiments.workbench import linear_gaussian


def test_fig1_reads_as_the_paper_says_at_the_size_we_state():
    row, audit = fig1.measure(linear_gaussian(*fig1.SHOWN, seed=1))
    assert row.dp_over_largest > 10  # "more than an order of magnitude"
    assert 4 < row.dp_over_everyone < 9  # "six times"
    assert audit.losses.max() == row.largest < row.everyone_attained <= row.everyone < row.dp


def test_fig1_the_gap_grows_with_the_table():
    small, _ = fig1.measure(linear_gaussian(40, 5, seed=2))
    large, _ = fig1.measure(linear_gaussian(400, 5, seed=2))
    assert large.dp_over_everyone > 10 * small.dp_over_everyone


def test_fig2_left_losses_lie_orders_of_magnitude_below_dp():
    row, _ = fig2_left.measure(100, 3, 4.0)
    assert row.dp_over_median > 100 and row.largest < row.dp


def test_fig2_right_order_of_the_curves():
    row = fig2_right.measure(linear_gaussian(200, 5, seed=3), gamma=10.0)
    assert row.median < row.q95 < row.largest < row.everyone < row.dp < row.exponential_mechanism
    assert row.excess_risk == pytest.approx(5 / (2 * 10.0) / 200)


def test_people_who_know_their_loss_leave_a_biased_table_and_those_who_know_a_promise_do_not():
    told_loss, told_promise = (participation.measure(rule, 0.8, 300, 6) for rule in ("own loss", "promise"))
    assert told_loss.staying > 0.8 and told_loss.rare_staying < told_loss.staying - 0.2
    assert told_loss.bias > 3 * told_loss.chance
    assert abs(told_promise.rare_staying - told_promise.staying) < 0.1
    assert told_promise.bias < 3 * told_promise.chance


def test_the_average_does_not_depend_on_the_smallest_eigenvalue_but_the_supremum_does():
    wide, narrow = covariate_shift.measure(300, 1.0, 1.0), covariate_shift.measure(300, 0.1, 1.0)
    assert wide.smallest_eigenvalue > 20 * narrow.smallest_eigenvalue
    assert narrow.mean_square < 1.6 * wide.mean_square
    assert narrow.everyone > 5 * wide.everyone
    assert narrow.shifted_mean_square > 20 * wide.shifted_mean_square


def test_the_length_of_theta_matters_for_everyone_only():
    short, long = covariate_shift.measure(300, 1.0, 0.25), covariate_shift.measure(300, 1.0, 4.0)
    assert long.mean_square == pytest.approx(short.mean_square, rel=1e-6)
    assert long.shifted_mean_square == pytest.approx(short.shifted_mean_square, rel=1e-6)
    assert long.everyone > 3 * short.everyone


def test_no_patient_loses_more_than_was_promised():
    case = patients.cases()[0]
    release = patients.releases(len(case.y))[0]
    import perinstance as pi

    audit = pi.audit(release, case.X, case.y, delta=1e-6)
    assert audit.losses.max() <= patients.PROMISE * (1 + 1e-9)
    assert audit.quantile(0.5) < 0.5


def test_adaops_approaches_least_squares_and_ops_does_not():
    names = ("AdaOPS", "OPS")
    small = {r.method: r.error_over_least_squares for r in efficiency.measure(1_000, 5, 1.0, 6, names)}
    large = {r.method: r.error_over_least_squares for r in efficiency.measure(100_000, 5, 1.0, 6, names)}
    assert large["AdaOPS"] < 1.5 < 2 * large["AdaOPS"] < small["AdaOPS"]
    assert large["OPS"] > 5


def test_hiding_the_path_is_worth_more_with_every_step():
    few, many = hidden_path.measure(5), hidden_path.measure(50)
    assert few.last_largest < few.all_largest and many.all_largest > 2 * few.all_largest
    assert many.all_largest / many.last_largest > 1.2 * few.all_largest / few.last_largest


def test_the_last_of_many_small_steps_is_a_posterior_sample():
    coarse, fine, finest = (hidden_path.limit_gap(count, 20 / count) for count in (1_000, 10_000, 100_000))
    assert coarse > 5 * fine > 25 * finest and finest < 1e-2


@pytest.mark.parametrize("name", NAMES)
def test_each_writes_figure_and_numbers(name, tmp_path):
    made = script(name)(tmp_path, quick=True, quiet=True)
    assert [path.suffix for path in made] == [".png", ".svg", ".csv"]
    assert made[0].read_bytes().startswith(b"\x89PNG") and made[0].stat().st_size > 5000
    with made[2].open() as stream:
        assert len(list(csv.DictReader(stream))) >= 1
