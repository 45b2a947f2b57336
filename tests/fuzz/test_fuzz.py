"""Run the whole package on damaged files: every call succeeds or raises a `TraceError`.

`make fuzz` does the same with new inputs and all steps; see run.py.
"""

import pytest
from support.examples import ALL

from .inputs import (
    CASES_FROM,
    DATABASES_FROM,
    DUMPS_FROM,
    LONG_NAMES_FROM,
    PROFILERS_FROM,
    STRUCTURAL_FROM,
    cases,
)
from .journey import journey, run

#: Number of inputs of each kind; `make fuzz` tries thousands of new ones.
INPUTS, STRUCTURAL, CASES, AT_ONCE = (160, 40, 40, 20) if ALL else (10, 5, 5, 5)
#: Share of the steps after loading that are run; all of them would take minutes.
SHARE = 0.1
#: Share of charts drawn for inputs in `FAILED_ONCE`; none of these inputs failed in a chart.
DRAWN = 1.0 if ALL else 0.2


#: Inputs that once failed: long keys before the records of servers, times too large for decimals, a
#: base time of 123 digits, a late rank in a mixed job, profiles of 1e300 seconds, servers' profiles
#: read as Kineto, concatenated traces whose excluded records an export brought back, a database
#: whose rows are not found by row id, an exported Horovod timeline beside a damaged one, message
#: sizes of 5 000 digits, and a table name that is not UTF-8.
FAILED_ONCE = (
    51222,
    1795460442465,
    1795460444848,
    1795464047260,
    1795460444950,
    1795460445416,
    1795464048278,
    1795673953469,
    1795673958006,
    1795897000070,
    1795897000227,
    1795960000108,
    1795960000548,
    1795970001209,
    1795970003034,
)


@pytest.mark.parametrize("seed", FAILED_ONCE)
def test_inputs_that_failed_once_do_not(seed):
    assert run(seed, drawn=DRAWN) == []


@pytest.mark.parametrize(
    "first",
    [
        *range(0, INPUTS, AT_ONCE),
        *range(STRUCTURAL_FROM, STRUCTURAL_FROM + STRUCTURAL, AT_ONCE),
        *range(CASES_FROM, CASES_FROM + CASES, AT_ONCE),
        *range(DATABASES_FROM, DATABASES_FROM + STRUCTURAL, AT_ONCE),
        *range(LONG_NAMES_FROM, LONG_NAMES_FROM + AT_ONCE, AT_ONCE),
        *range(DUMPS_FROM, DUMPS_FROM + AT_ONCE, AT_ONCE),
        *range(PROFILERS_FROM, PROFILERS_FROM + AT_ONCE, AT_ONCE),
    ],
)
def test_damaged_files_fail_properly(first):
    result = [finding for seed in range(first, first + AT_ONCE) for finding in run(seed, SHARE)]
    assert result == []


@pytest.mark.parametrize("name", cases())
def test_a_shared_case_goes_through_every_call(name, tmp_path):
    source = tmp_path / name
    source.mkdir()
    for path, text in cases()[name].items():
        (source / path).write_bytes(text)
    assert journey(source, tmp_path, 0, 0.2) == []
