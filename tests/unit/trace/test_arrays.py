"""Operations on columns."""

import numpy as np
import pytest

from hta_widgets.trace.arrays import positions_in


@pytest.mark.parametrize(
    ("keys", "expected"),
    [([], [-1, -1, -1, -1]), ([3], [-1, 0, -1, -1]), ([0, 3, 3, 9], [0, 1, -1, 3])],
)
def test_positions_of_values_in_ascending_keys(keys, expected):
    keys, values = np.array(keys, np.int64), np.array([0, 3, 5, 9], np.int64)
    assert positions_in(keys, values).tolist() == expected
