"""Pairs written to plain columns and read back: bit for bit, for every member of the catalogue; nothing is guessed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perinstance.errors import InvalidInput
from perinstance.pairs import (
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    PairSchema,
    PosteriorSamplePair,
    compose,
    from_columns,
)
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.stored import single_pairs

from .test_catalogue import CATALOGUE

KINDS = ["exact", "upper", "estimate"]
AWKWARD = [0.0, 5e-324, 0.1, 1.0 / 3.0, 1.7976931348623157e308, np.inf]
STORED = {
    **CATALOGUE,
    "dominated": Dominated([0.5, 1.0, 0.0], [0.1, 0.0, 0.0], [1e-9, 0.0, 0.0]),
    "infinities": PosteriorSamplePair(AWKWARD, AWKWARD[::-1], kind=KINDS * 2),
    "mixed kinds": compose([PosteriorSamplePair([0.1] * 3, [1.0] * 3, kind=KINDS), LaplaceShift([0.1, 0.2, np.inf])]),
    "many releases": compose([LaplaceShift([0.1 * i]) for i in range(1, 13)]),
    "bounded and composed": compose([Dominated([0.5], [0.1], [1e-9]), GeneralGaussian([[0.2, -0.1]], [[0.3, 0.8]])]),
    "no coordinates": GeneralGaussian(np.zeros((3, 0)), np.zeros((3, 0))),
}
every = pytest.mark.parametrize("pairs", STORED.values(), ids=STORED.keys())


def bits(pairs):
    return {
        name: values.tolist() if values.dtype.kind == "U" else values.tobytes()
        for name, values in pairs.to_columns().items()
    }


def same(one, other):
    return type(one) is type(other) and len(one) == len(other) and bits(one) == bits(other)


def test_every_pair_is_stored_here():
    assert {type(pairs) for pairs in STORED.values()} >= set(single_pairs().values())


@every
def test_there_and_back(pairs):
    again = from_columns(pairs.to_columns(), pairs.schema())
    assert same(again, pairs) and list(again.kinds) == list(pairs.kinds)
    assert again.epsilon(1e-6).tobytes() == pairs.epsilon(1e-6).tobytes()
    for part in (pairs[:0], pairs[:1]):
        assert same(from_columns(part.to_columns(), str(part.schema())), part)


@every
def test_through_a_parquet_file(pairs, tmp_path):
    table = pa.table(pairs.to_columns()).replace_schema_metadata({"pairs": str(pairs.schema())})
    pq.write_table(table, tmp_path / "pairs.parquet")
    read = pq.read_table(tmp_path / "pairs.parquet")
    columns = {name: read[name].to_numpy() for name in read.column_names}
    assert same(from_columns(columns, read.schema.metadata[b"pairs"].decode()), pairs)


@pytest.mark.parametrize("text", ["", "shift", "shift/", "shift/x", "shift/1(", "composed/1(shift)", "Shift/1"])
def test_unreadable_schemas_are_refused(text):
    with pytest.raises(InvalidInput, match="schema must read like"):
        from_columns({}, text)


@pytest.mark.parametrize("wrong", [(3, "shift/1"), ({}, None), ([1.0], "shift/1")])
def test_what_is_no_mapping_or_no_schema_is_refused(wrong):
    with pytest.raises(InvalidInput, match="from_columns takes a mapping"):
        from_columns(*wrong)


@pytest.mark.parametrize("text", ["normal/1", "shift/1(laplace/1)", "composed/1(normal/1)"])
def test_unknown_pairs_are_refused(text):
    with pytest.raises(InvalidInput, match="no pair is called .* there are shift, gaussian"):
        from_columns({}, text)


@every
def test_other_versions_are_refused(pairs):
    schema = pairs.schema()
    for version in (0, 2):
        with pytest.raises(InvalidInput, match=f"got version {version}; read them with"):
            from_columns(pairs.to_columns(), PairSchema(schema.name, version, schema.parts))


@every
def test_missing_and_foreign_columns_are_refused(pairs):
    columns = pairs.to_columns()
    for name in columns:
        with pytest.raises(InvalidInput, match=r"missing|no columns"):
            from_columns({key: values for key, values in columns.items() if key != name}, pairs.schema())
    with pytest.raises(InvalidInput, match=r"no columns \['id'\]"):
        from_columns({**columns, "id": np.arange(len(pairs))}, pairs.schema())


def test_bad_columns_are_refused():
    columns = GaussianShift([0.1, 0.2]).to_columns()
    for bad, message in [
        ({"distance": [0.1]}, "one length"),
        ({"distance": ["a", "b"]}, "must be numbers"),
        ({"distance": [[0.1], [0.2]]}, "one dimension"),
        ({"distance": [0.1, np.nan]}, "a number >= 0"),
        ({"distance": [0.1, -1.0]}, "a number >= 0"),
        ({"kind": ["exact", "sure"]}, "kind must be one of"),
        ({"kind": [0, 3]}, "or its position there"),
        ({"kind": "exact"}, "one dimension"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            from_columns({**columns, **bad}, "shift/1")
    with pytest.raises(InvalidInput, match="needs the schemas of its releases"):
        from_columns({}, "composed/1")
    with pytest.raises(InvalidInput, match="same people"):
        both = {f"shift1_{k}": v for k, v in columns.items()} | {"laplace2_distance": [0.1], "laplace2_kind": ["exact"]}
        from_columns(both, "composed/1(shift/1,laplace/1)")


@pytest.mark.parametrize("factor", [0.0, -1.0, np.inf, np.nan])
def test_noise_is_scaled_by_a_positive_number(factor):
    with pytest.raises(InvalidInput, match="factor"):
        GaussianShift([0.1]).with_noise(factor)


@every
def test_more_noise_costs_less(pairs):
    more = pairs.with_noise(2.0)
    if more is None:
        assert type(pairs) not in (GaussianShift, LaplaceShift, PosteriorSamplePair)
        return
    assert type(more) is type(pairs) and list(more.kinds) == list(pairs.kinds)
    assert (more.epsilon(1e-6) <= pairs.epsilon(1e-6)).all()
    assert same(more.with_noise(0.5), pairs) or np.isinf(pairs.to_columns()["residual"]).any()
