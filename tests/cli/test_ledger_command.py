"""``perinstance ledger``, and ``--ledger`` of audit and release."""

from __future__ import annotations

import json

import perinstance as pi
from tests.cli.conftest import people


def table(folder):
    frame = people(60)
    frame["who"] = [f"p{i}" for i in range(60)]
    frame.to_csv(folder / "people.csv", index=False)
    target = next(name for name in frame.columns if name not in ("who", "person", "ward"))
    numbers = [name for name in frame.columns if frame[name].dtype.kind == "f" and name != target]
    return target, [word for name in numbers for word in ("--feature", name)]


def test_a_day_with_a_ledger(run, tmp_path):
    target, features = table(tmp_path)
    assert run("ledger", "init", "book").code == 0
    asked = ("people.csv", "--target", target, "--id", "who", *features, "--ledger", "book")
    assert run("audit", *asked, "--key", "one", "--fixed-in-advance", "-q").code == 0
    assert run("audit", *asked, "--key", "one", "--fixed-in-advance", "-q").code == 0  # the same charge
    done = run("release", *asked, "--key", "two", "--epsilon", "1", "--x-bound", "5", "--y-bound", "5")
    assert done.code == 0, done.err
    book = pi.Ledger("book")
    assert [(r.key, r.state, r.people) for r in book.releases()] == [("one", "committed", 60), ("two", "committed", 60)]
    totals = json.loads(run("ledger", "totals", "book", "--json").out)
    assert totals["people"] == 60 and totals["releases"] == 2 and not totals["guarantee"]
    history = json.loads(run("ledger", "person", "book", "p7", "--json").out)
    assert [entry["key"] for entry in history["entries"]] == ["one", "two"]
    assert "two" in run("ledger", "releases", "book").out
    assert run("ledger", "verify", "book").code == 0
    assert run("ledger", "export", "book", "copy").code == 0
    file = next((tmp_path / "book" / "charges").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    damaged = run("ledger", "verify", "book")
    assert damaged.code == 1 and "changed" in damaged.out


def test_what_cannot_be_charged_is_refused_before_the_work(run, tmp_path):
    target, features = table(tmp_path)
    asked = ("people.csv", "--target", target, *features)
    assert "--key" in run("audit", *asked, "--ledger", "book").err
    assert "--ledger" in run("audit", *asked, "--key", "one").err
    missing = run("audit", *asked, "--id", "who", "--ledger", "book", "--key", "one")
    assert missing.code == 2 and "perinstance ledger init" in missing.err and not (tmp_path / "book").exists()


def test_a_promise_from_elsewhere_and_a_reservation_left_behind(run, tmp_path):
    table(tmp_path)
    run("ledger", "init", "book")
    charged = run("ledger", "charge", "book", "people.csv", "--key", "k", "--id", "who", "--epsilon", "0.5")
    assert charged.code == 0 and "60 people" in charged.out
    wrong = run("ledger", "charge", "book", "people.csv", "--key", "w", "--id", "who", "--epsilon", "-1")
    assert wrong.code == 2 and "--epsilon must be a number >= 0, got -1" in wrong.err
    assert 0.5 <= json.loads(run("ledger", "totals", "book", "--json").out)["maximum"] < 0.6
    book = pi.Ledger("book")
    book.reserve_pairs(["a"], pi.pairs.GaussianShift([1.0]), "left", mechanism="something")
    assert run("ledger", "settle", "book", "left", "--not-published").out.strip() == "left: cancelled"
    again = run("ledger", "settle", "book", "left", "--published")
    assert again.code == 2 and "cancelled" in again.err
    assert run("ledger", "settle", "book", "none", "--published").code == 2
    book.charge_pairs(["a"], pi.pairs.GaussianShift([float("inf")]), key="infinite")  # null in JSON, with a flag
    totals = json.loads(run("ledger", "totals", "book", "--json").out)
    assert totals["maximum"] is None and totals["maximum_infinite"] is True
    person = json.loads(run("ledger", "person", "book", "a", "--json").out)
    assert person["epsilon"] is None and person["entries"][-1]["epsilon_infinite"] is True


def test_a_page_is_written_for_its_owner(run, tmp_path):
    table(tmp_path)
    run("ledger", "init", "book")
    run("ledger", "charge", "book", "people.csv", "--key", "k", "--id", "who", "--epsilon", "0.5")
    done = run("ledger", "report", "book", "--out", "page.html", "--limit", "0.6", "--title", "Our people")
    assert done.code == 0 and "page.html" in done.out, done.err
    page = (tmp_path / "page.html").read_text()
    assert "Our people" in page and "<td>p10<" in page and (tmp_path / "page.html").stat().st_mode & 0o777 == 0o600
    assert run("ledger", "report", "book", "--out", "page.html", "--redact").code == 0
    assert "<td>p10<" not in (tmp_path / "page.html").read_text()
    missing = run("ledger", "report", "book", "--out", "none/page.html")
    assert missing.code == 2 and "no folder" in missing.err


def test_a_second_draw_needs_a_key_of_its_own(run, tmp_path):
    target, features = table(tmp_path)
    run("ledger", "init", "book")
    asked = ("people.csv", "--target", target, "--id", "who", *features, "--ledger", "book", "--epsilon", "1")
    asked += ("--x-bound", "5", "--y-bound", "5", "--out")
    assert run("release", *asked, "one.json", "--key", "one").code == 0
    again = run("release", *asked, "two.json", "--key", "one")
    assert again.code == 2 and "another key" in again.err and not (tmp_path / "two.json").exists()
    assert run("release", *asked, "two.json", "--key", "two").code == 0
    assert [release.state for release in pi.Ledger("book").releases()] == ["committed"] * 2


def test_an_interrupted_release_tells_of_its_charge(run, tmp_path, monkeypatch):
    """Ctrl-C between the charge and the model: the charge counts, and whoever is asked to settle it is told how."""
    target, features = table(tmp_path)
    assert run("ledger", "init", "book").code == 0
    asked = ("people.csv", "--target", target, "--id", "who", *features, "--ledger", "book", "-q")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as now:
        now.setattr(pi.AdaSSP, "fit", interrupted)
        done = run("release", *asked, "--key", "one", "--epsilon", "1", "--x-bound", "5", "--y-bound", "5")
    assert done.code == 130 and "'one' stays in the ledger as reserved" in done.err and "ledger settle" in done.err
    assert pi.Ledger("book").releases()[0].state == "reserved" and not (tmp_path / "model.json").exists()
    assert run("ledger", "settle", "book", "one", "--not-published").code == 0


def test_the_folder_one_stands_in_has_a_name(run, tmp_path):
    tmp_path.chmod(0o755)
    refused = run("ledger", "init", ".")
    assert refused.code == 2 and f"'{tmp_path.name}'" in refused.err
    tmp_path.chmod(0o700)
    made = run("ledger", "init", ".")
    assert made.code == 0 and tmp_path.name in made.out
    (tmp_path / "empty").mkdir()
    assert "'empty'" in run("ledger", "totals", "empty/").err


def test_a_filter_admits_what_is_released(run, tmp_path):
    target, features = table(tmp_path)
    made = run("ledger", "init", "book", "--gaussian", "0.5")
    assert made.code == 0 and "nobody loses more than ε = 2.26 at δ = 1e-06" in made.out, made.out
    asked = ("people.csv", "--target", target, "--id", "who", *features, "--ledger", "book", "--epsilon", "1")
    asked += ("--x-bound", "5", "--y-bound", "5", "--out")
    for key in ("one", "two", "three"):
        assert run("release", *asked, f"{key}.json", "--key", key).code == 0
    book = pi.Ledger("book")
    assert [release.state for release in book.releases()] == ["committed"] * 3
    assert book.totals(1e-6).losses.max() <= book.filter.epsilon(1e-6)
    refused = run("audit", "people.csv", "--target", target, "--id", "who", *features, "--ledger", "book", "--key", "a")
    assert refused.code == 2 and "perinstance release --ledger" in refused.err


def test_people_get_other_ids_or_none(run, tmp_path):
    table(tmp_path)
    run("ledger", "init", "book")
    run("ledger", "charge", "book", "people.csv", "--key", "k", "--id", "who", "--epsilon", "0.5", "--delta", "1e-9")
    (tmp_path / "names.csv").write_text("old,new\np7,q7\np8,q8\n")
    assert run("ledger", "rename", "book", "names.csv").out.startswith("1 release written anew")
    assert "k: 0.5" in run("ledger", "person", "book", "q7").out
    assert run("ledger", "forget", "book", "q7").code == 0
    assert "0 releases" in run("ledger", "person", "book", "q7").out
    assert "60 of 60 people" in run("ledger", "deletions", "book", "--epsilon", "0.6", "--out", "who.csv").out
    assert "forgotten-" in (tmp_path / "who.csv").read_text()
    assert "0 of 60 people" in run("ledger", "deletions", "book", "--epsilon", "0.4").out


def test_a_limit_of_totals_and_what_is_said_afterwards(run, tmp_path):
    table(tmp_path)
    run("ledger", "init", "book")
    for key in ("one", "two"):
        run("ledger", "charge", "book", "people.csv", "--key", key, "--id", "who", "--epsilon", "0.5")
    assert run("ledger", "totals", "book", "--fail-over", "1.2").code == 0
    over = run("ledger", "totals", "book", "--fail-over", "0.9")
    assert over.code == 1 and "exceeds the limit 0.9" in over.err and "median" in over.out
    for key in ("one", "two"):
        assert run("ledger", "fixed-in-advance", "book", key).out == f"{key}: fixed in advance\n"
    assert run("ledger", "fixed-in-advance", "book", key).code == 0  # once more changes nothing
    assert json.loads(run("ledger", "totals", "book", "--json").out)["guarantee"]
    assert run("ledger", "verify", "book").code == 0


def test_every_refusal_is_one_sentence(run, tmp_path):
    table(tmp_path)
    run("ledger", "init", "book")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "same.csv").write_text("old,new\np7,q\np8,q\n")
    for words, said in (
        (("totals", "book", "--fail-over", "nan"), "--fail-over must be a loss >= 0, got nan"),
        (("deletions", "book", "--epsilon", "-1"), "--epsilon must be a loss >= 0, got -1"),
        (("rename", "book", "none.csv"), "none.csv"),
        (("rename", "book", "people.csv"), "no column 'old'"),
        (("rename", "book", "empty.csv"), "empty"),
        (("rename", "book", "same.csv"), "repeat"),
        (("forget", "book", "nobody"), "nobody of that name"),
        (("fixed-in-advance", "book", "none"), "perinstance ledger releases"),
        (("init", "other", "--gaussian", "-1"), "--gaussian must be"),
    ):
        done = run("ledger", *words)
        assert done.code == 2 and said in done.err and done.err.count("\n") == 1, done.err
