from __future__ import annotations

import pytest

from perinstance.data import hospital_patients
from perinstance.errors import InvalidInput


def test_the_hospital_is_as_hospitals_are():
    table = hospital_patients()
    frame = table.to_pandas()
    assert len(frame) == 5000 and frame["person"].is_unique
    assert {str(kind) for kind in table.schema.types} == {"string", "date32[day]", "int64", "double"}
    missing = frame.isna().mean()
    assert set(missing[missing > 0].index) >= {"smoker", "weight_kg", "creatinine_mg_dl"} and missing["cost_eur"] == 0
    assert frame["platelets_per_ul"].mean() / frame["creatinine_mg_dl"].mean() > 1e5
    assert set(frame["readmitted"]) == {"yes", "no"} and frame["cost_eur"].between(350, 150_000).all()
    assert hospital_patients(50).equals(hospital_patients(50)) and hospital_patients(1).num_rows == 1
    assert not hospital_patients(50).equals(hospital_patients(50, seed=1))
    with pytest.raises(InvalidInput, match="people"):
        hospital_patients(0)
