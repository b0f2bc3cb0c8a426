"""Every public name is there and is what it says, whatever was imported first."""

import subprocess
import sys
from dataclasses import is_dataclass

import pytest

from perinstance import analysis


@pytest.mark.parametrize("name", analysis.__all__)
def test_each_name_is_a_function_or_a_frozen_record(name):
    thing = getattr(analysis, name)
    assert callable(thing) and thing.__doc__
    if isinstance(thing, type):
        assert is_dataclass(thing) and thing.__dataclass_params__.frozen
        if name not in ("Between", "KeyQuantity", "PrivateBound"):
            assert {"kind", "assumptions"} <= set(thing.__dataclass_fields__), name


def test_a_function_wins_over_the_module_of_its_name():
    code = "import perinstance.analysis.worst_case, perinstance.analysis.random_tables as m;"
    code += "from perinstance import analysis;"
    code += "assert callable(analysis.everyone) and callable(analysis.one_person) and callable(analysis.group)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_there():
    with pytest.raises(AttributeError):
        analysis.nothing  # noqa: B018 - asking is the test
