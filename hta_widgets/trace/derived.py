"""What was derived of a rank, of a set or of a comparison already, so that none waits twice for it.

What is kept this way goes when its owner lets go of its ``memo``; see `keeping`. Two threads that
ask at once may both work it out, and either's may stay: it is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Protocol, TypeVar

from hta_widgets import taxonomy

__all__ = ["derived", "derived_by_rules", "derived_once"]


class Owner(Protocol):
    """What keeps what was derived of it."""

    @property
    def memo(self) -> dict[Any, Any]:
        """What was derived of it, by the key of each."""


OwnerT = TypeVar("OwnerT", bound=Owner)
T = TypeVar("T")


def derived(
    owner: Owner,
    key: Hashable,
    derive: Callable[[], T],
    holds: Callable[[T], bool] | None = None,
) -> T:
    """Return what `owner` keeps by `key`; what is not there, or does not hold, is derived."""
    known: T | None = owner.memo.get(key)
    if known is None or not (holds is None or holds(known)):
        # Looked up again: the owner may have let go of the memo meanwhile.
        known = owner.memo[key] = derive()
    return known


def derived_once(key: Hashable) -> Callable[[Callable[[OwnerT], T]], Callable[[OwnerT], T]]:
    """Keep by `key` what a function derives of its one argument."""

    def kept(derive: Callable[[OwnerT], T]) -> Callable[[OwnerT], T]:
        @wraps(derive)
        def known(owner: OwnerT) -> T:
            return derived(owner, key, lambda: derive(owner))

        return known

    return kept


def derived_by_rules(key: Hashable) -> Callable[[Callable[[OwnerT], T]], Callable[[OwnerT], T]]:
    """Keep by `key` what a function derives, until the rules of `taxonomy` change."""

    def kept(derive: Callable[[OwnerT], T]) -> Callable[[OwnerT], T]:
        @wraps(derive)
        def known(owner: OwnerT) -> T:
            version = taxonomy.version()
            return derived(
                owner,
                key,
                # The version from before: rules that change meanwhile may have come too late.
                lambda: (version, derive(owner)),
                lambda found: found[0] == version,
            )[1]

        return known

    return kept
