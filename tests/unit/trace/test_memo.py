"""Tests of `hta_widgets.trace.memo`: cached results, and when they are recomputed."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hta_widgets import taxonomy
from hta_widgets.trace.memo import memo, memoize


class Owner:
    def __init__(self) -> None:
        self.memo: dict[Any, Any] = {}


def test_results_are_computed_once_per_owner_and_arguments():
    calls = []

    @memoize
    def number(owner: Owner, *, plus: int = 0) -> int:
        """Return the number of earlier calls."""
        calls.append(owner)
        return len(calls) - 1 + plus

    first, second = Owner(), Owner()
    assert [number(first), number(second), number(first), number(second)] == [0, 1, 0, 1]
    assert calls == [first, second]
    assert [number(first, plus=10), number(first), number(first, plus=10)] == [12, 0, 12]
    assert number.__doc__ == "Return the number of earlier calls."
    first.memo = {}
    assert number(first) == 3


def test_none_is_a_result():
    owner, calls = Owner(), []
    assert [memo(owner, "nothing", lambda: calls.append(1)) for _ in range(3)] == [None] * 3
    assert calls == [1]


def test_a_result_of_a_memo_that_was_replaced_is_not_kept():
    owner = Owner()

    def make() -> int:
        owner.memo = {}
        return 1

    assert memo(owner, "number", make) == 1
    assert owner.memo == {}


def test_after_an_error_the_next_call_computes():
    owner = Owner()
    with pytest.raises(ZeroDivisionError):
        memo(owner, "number", lambda: 1 // 0)
    assert memo(owner, "number", lambda: 1) == 1


def test_rules_added_during_the_computation_make_its_result_old():
    owner, versions = Owner(), []

    @memoize
    def version(_owner: Owner) -> int:
        versions.append(taxonomy.version())
        if len(versions) == 1:
            taxonomy.add("memory", "a name that no event has")
        return versions[-1]

    try:
        before = version(owner)
        assert version(owner) > before
        assert version(owner) == versions[-1]
        assert len(versions) == 2
        assert len(owner.memo) == 1
    finally:
        taxonomy.reset()


def test_threads_wait_for_the_one_that_computes():
    owner, calls, is_computing, go_on = Owner(), [], threading.Event(), threading.Event()

    def make() -> int:
        calls.append(1)
        is_computing.set()
        assert go_on.wait(10)
        # The function needs other results, among them one with the same key for another owner.
        return memo(owner, "other", lambda: 1) + memo(Owner(), "number", lambda: 1)

    with ThreadPoolExecutor(4) as executor:
        results = [executor.submit(memo, owner, "number", make) for _ in range(4)]
        assert is_computing.wait(10)
        assert memo(owner, "independent", lambda: 5) == 5
        go_on.set()
        assert [result.result(10) for result in results] == [2] * 4
    assert calls == [1]
