"""A table to try things on: patients of a hospital that does not exist, made of random numbers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.checked_numbers import is_whole
from perinstance.errors import InvalidInput

WARDS = ("surgery", "cardiology", "oncology", "psychiatry", "paediatrics")


def hospital_patients(people: int = 5000, seed: int = 2019) -> pa.Table:
    """Make a hospital's table: text, dates, missing cells, scales from 0.5 to 500,000, a yes/no and a euro outcome.

    ``people`` is how many rows; the same ``seed`` gives the same table.

    >>> table = hospital_patients(100)
    >>> table.num_rows, table.column_names[:5]
    (100, ['person', 'admitted', 'ward', 'sex', 'age'])
    """
    if not is_whole(people) or people < 1:
        raise InvalidInput(f"people must be a whole number >= 1, got {people!r}")
    rng = np.random.default_rng(seed)
    n = int(people)
    ward = rng.choice(len(WARDS), size=n, p=(0.35, 0.25, 0.2, 0.15, 0.05))
    age = np.where(ward == 4, rng.integers(0, 18, n), np.clip(rng.normal(58, 18, n), 18, 102).round()).astype(int)
    smoker = rng.random(n) < np.where(age < 16, 0.0, 0.24)
    weight = np.where(age < 18, 4 + 3.4 * age, rng.normal(78, 15, n)).clip(2.5, 210).round(1)
    creatinine = np.exp(rng.normal(-0.1 + 0.006 * (age - 50), 0.3, n)).clip(0.2, 12).round(2)
    platelets = rng.normal(250_000, 65_000, n).clip(8_000, 900_000).round(-3).astype(int)
    nights = np.minimum(rng.geometric(0.18, n), 120)
    severity = 0.02 * (age - 50) + 0.5 * smoker + 0.6 * np.log(creatinine) + np.array([0.2, 0.1, 0.7, -0.1, -0.3])[ward]
    readmitted = rng.random(n) < 1 / (1 + np.exp(1.6 - severity))
    cost = (1800 + 640 * nights + 1500 * severity.clip(-1) + np.exp(rng.normal(6.2, 1.0, n))).clip(350, 150_000)
    admitted = np.datetime64("2024-01-01") + rng.integers(0, 366, n)

    def some(values: NDArray, share: float) -> list:
        """Lose a share of the cells, as tables do."""
        lost = rng.random(n) < share
        return [None if gone else value for value, gone in zip(values.tolist(), lost, strict=True)]

    yes_no = np.array(["no", "yes"], dtype=object)
    return pa.table(
        {
            "person": [f"P{k:05d}" for k in range(1, n + 1)],
            "admitted": admitted.tolist(),
            "ward": [WARDS[k] for k in ward],
            "sex": some(rng.choice(["f", "m"], size=n), 0.01),
            "age": age.tolist(),
            "smoker": some(yes_no[smoker.astype(int)], 0.06),
            "weight_kg": some(weight, 0.03),
            "creatinine_mg_dl": some(creatinine, 0.05),
            "platelets_per_ul": some(platelets, 0.05),
            "nights": nights.tolist(),
            "readmitted": yes_no[readmitted.astype(int)].tolist(),
            "cost_eur": cost.round(2).tolist(),
        }
    )
