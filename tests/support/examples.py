"""What only `make test-all` runs: four fifths of the examples of a property, some long tests."""

import os

import pytest

ALL = bool(os.environ.get("ALL_EXAMPLES"))

only_in_all = pytest.mark.skipif(not ALL, reason="only `make test-all` runs it")


def examples(number: int) -> int:
    """Return how many of `number` examples to try in this run."""
    return number if ALL else max(number // 5, 2)
