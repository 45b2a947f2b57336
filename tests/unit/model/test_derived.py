"""What was derived once is kept, until its owner lets go of it or it holds no more."""

from typing import Any

from hta_widgets import taxonomy
from hta_widgets.trace.memo import derived, derived_by_rules, derived_once


class Owner:
    def __init__(self) -> None:
        self.memo: dict[Any, Any] = {}


def test_each_owner_is_asked_once():
    asked = []

    @derived_once("number")
    def number(owner: Owner) -> int:
        """Return how many were asked before."""
        asked.append(owner)
        return len(asked) - 1

    first, second = Owner(), Owner()
    # Nought is an answer as well.
    assert [number(first), number(second), number(first), number(second)] == [0, 1, 0, 1]
    assert asked == [first, second]
    assert number.__doc__ == "Return how many were asked before."
    first.memo = {}
    assert number(first) == 2


def test_what_does_not_hold_is_derived_again():
    owner = Owner()
    assert derived(owner, "text", lambda: "ab") == "ab"
    assert derived(owner, "text", lambda: "abc", lambda known: len(known) == 2) == "ab"
    assert derived(owner, "text", lambda: "abc", lambda known: len(known) == 3) == "abc"
    assert owner.memo == {"text": "abc"}


def test_what_was_let_go_meanwhile_is_not_brought_back():
    owner = Owner()
    before = owner.memo

    def derive() -> int:
        owner.memo = {}
        return 1

    assert derived(owner, "number", derive) == 1
    assert before == {}
    assert owner.memo == {"number": 1}


def test_rules_that_change_meanwhile_make_it_old():
    owner, versions = Owner(), []

    @derived_by_rules("version")
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
