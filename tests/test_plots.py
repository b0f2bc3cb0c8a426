from __future__ import annotations

import matplotlib
import numpy as np
import pytest

import perinstance as pi
from perinstance import plots
from perinstance.errors import InvalidInput

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    return pi.audit(pi.OutputPerturbation(scale=0.5), X, X.sum(1) + rng.normal(size=80))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def test_a_policy_grows_more_slowly_than_the_sum_itself():
    releases = {
        "sum": pi.NoisyMean(scale=10.0, noise="gaussian", statistic="sum"),
        "root": pi.SlowScalingSum("sqrt", 10.0),
        "log": pi.SlowScalingSum("log", 10.0),
    }
    ax = plots.policy(releases, [10.0, 1e3, 1e5])
    rise = [line.get_ydata()[-1] / line.get_ydata()[1] for line in ax.get_lines()]
    assert rise[0] > rise[1] > rise[2] > 1
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(releases)


def test_each_figure_draws_on_the_axes_it_is_given(audit):
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(1, 5)
    assert plots.distribution(audit, axes[0], dp=9.0, everyone=5.0) is axes[0]
    assert plots.plane(audit, axes[1]) is axes[1]
    assert plots.groups(audit, ["a", "b"] * 40, axes[2]) is axes[2]
    assert plots.noise(audit, axes[3]) is axes[3]
    assert plots.settings({"one": audit, "two": audit.losses * 2}, axes[4], dp={"one": 9.0}) is axes[4]
    assert [t.get_text() for t in axes[0].get_legend().get_texts()] == ["anybody within bounds", "worst case (DP)"]


def test_the_histogram_counts_every_person(audit):
    ax = plots.distribution(audit)
    assert sum(patch.get_height() for patch in ax.patches) == 80


def test_the_noise_curve_passes_through_this_audit(audit):
    ax = plots.noise(audit)
    maximum = next(line for line in ax.lines if line.get_label() == "maximum")
    at_one = np.interp(0.0, np.log(maximum.get_xdata()), maximum.get_ydata())
    assert at_one == pytest.approx(audit.losses.max(), rel=1e-9)


def test_twice_the_noise_is_what_an_audit_with_twice_the_noise_says(audit):

    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    y = X.sum(1) + rng.normal(size=80)
    for once, twice in (
        (pi.OutputPerturbation(scale=0.5), pi.OutputPerturbation(scale=1.0)),
        (pi.PosteriorSample(gamma=1.0), pi.PosteriorSample(gamma=0.25)),
        (pi.ObjectivePerturbation(scale=0.5), pi.ObjectivePerturbation(scale=1.0)),
    ):
        scaled = pi.audit(once, X, y).pairs.with_noise(2.0)
        assert scaled.epsilon(1e-6) == pytest.approx(pi.audit(twice, X, y).losses, rel=1e-9)


def test_names_from_the_data_are_no_formulas(audit):
    ax = plots.groups(audit, ["$x^{", "b"] * 40)
    ax.figure.canvas.draw()


def test_bad_calls_say_what_to_do(audit):
    with pytest.raises(InvalidInput, match="one entry per person"):
        plots.groups(audit, ["a"])
    with pytest.raises(InvalidInput, match="at least one audit"):
        plots.settings({})
    assert audit.plot() is not None


def test_a_notebook_draws_the_figure_once(audit, monkeypatch):
    """A notebook shows what a cell returns, and every figure that is still open."""
    import io

    import matplotlib.pyplot as plt

    assert len(plt.get_fignums()) == 0
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    figure = audit.plot()
    assert plt.get_fignums() == [] and len(figure.axes) == 3
    stream = io.BytesIO()
    figure.savefig(stream)
    assert stream.getvalue()[:4] == b"\x89PNG"
    monkeypatch.setattr(matplotlib, "get_backend", lambda: "agg")
    audit.plot()
    assert len(plt.get_fignums()) == 1  # a script shows it by plt.show()


@pytest.mark.parametrize("draw", [plots.distribution, plots.plane, plots.noise])
def test_ticks_are_few_and_do_not_collide(audit, draw):
    ax = draw(audit)
    ax.figure.canvas.draw()
    for axis, side in ((ax.xaxis, 0), (ax.yaxis, 1)):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels() if label.get_text()]
        assert 2 <= len(boxes) <= 9
        ends = sorted((box.intervalx if side == 0 else box.intervaly).tolist() for box in boxes)
        assert all(first[1] <= second[0] for first, second in zip(ends, ends[1:], strict=False))
        assert not any("times" in label.get_text() for label in axis.get_ticklabels())


def test_of_many_groups_the_most_exposed_are_drawn_and_it_says_so(audit):
    ax = plots.groups(audit, [f"g{i % 50}" for i in range(80)])
    assert len(ax.get_yticks()) == 40 and ax.get_title() == "The 40 most exposed of 50 groups"
