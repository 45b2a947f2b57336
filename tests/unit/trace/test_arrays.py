"""Operations on columns."""

import numpy as np
import pytest

from hta_widgets.trace.arrays import edges_by_group, positions_in


@pytest.mark.parametrize(
    ("keys", "expected"),
    [([], [-1, -1, -1, -1]), ([3], [-1, 0, -1, -1]), ([0, 3, 3, 9], [0, 1, -1, 3])],
)
def test_positions_of_values_in_ascending_keys(keys, expected):
    keys, values = np.array(keys, np.int64), np.array([0, 3, 5, 9], np.int64)
    assert positions_in(keys, values).tolist() == expected


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ([], ([], [], [])),
        ([7, -1, 7], ([-1, 7], [40, 10], [45, 35])),
        ([2, 2, 2], ([2], [10], [45])),
    ],
)
def test_first_start_and_last_end_of_groups(group, expected):
    start, end = [20, 40, 10][: len(group)], [35, 45, 30][: len(group)]
    columns = edges_by_group(*(np.array(values, np.int64) for values in (group, start, end)))
    assert tuple(column.tolist() for column in columns) == expected
    assert {column.dtype for column in columns} == {np.dtype(np.int64)}
