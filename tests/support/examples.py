"""The number of examples of a property: a third, except in `make test-all`."""

import os

ALL = bool(os.environ.get("ALL_EXAMPLES"))


def examples(number: int) -> int:
    """Return how many of `number` examples to try in this run."""
    return number if ALL else max(number // 3, 2)
