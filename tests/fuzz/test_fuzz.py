"""Damaged files through the whole package: every call succeeds or raises a `TraceError`.

`make fuzz` does the same with new inputs and all steps; see run.py.
"""

import pytest

from .journey import run

INPUTS, AT_ONCE = 300, 20
#: Share of the steps after loading that an input takes; all of them would take minutes.
SHARE = 0.12


@pytest.mark.parametrize("first", range(0, INPUTS, AT_ONCE))
def test_damaged_files_fail_properly(first):
    found = [finding for seed in range(first, first + AT_ONCE) for finding in run(seed, SHARE)]
    assert found == []
