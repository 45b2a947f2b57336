"""What only `make test-all` runs: 80 % of the examples of each property, and some long tests."""

import os

import pytest

ALL = bool(os.environ.get("ALL_EXAMPLES"))

only_in_all = pytest.mark.skipif(not ALL, reason="only `make test-all` runs it")


def examples(number: int) -> int:
    """Return how many of `number` examples this run tries."""
    return number if ALL else max(number // 5, 2)
