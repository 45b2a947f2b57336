"""Types of numpy arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Codes of kinds and other small tables.
Codes = npt.NDArray[np.uint8]

#: Positions in a table.
Rows = npt.NDArray[np.intp]
