"""Frames and figures that follow what a dashboard has selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from hta_widgets.errors import TraceError

__all__ = ["Following", "UnknownNameError"]

T = TypeVar("T")


class UnknownNameError(TraceError, KeyError):
    """There is nothing of this name: an error of this package, and of a mapping."""

    # A KeyError shows its message in quotes.
    __str__ = Exception.__str__


class Following(Mapping[str, T], Generic[T]):
    """Values by name, made when they are asked for and kept until the selection changes.

    Parameters
    ----------
    names : tuple of str
        The names that iteration gives.
    make : callable
        Makes the value of a name.
    canonical : callable
        Gives the name under which a value is kept; raises `UnknownNameError`, saying which names
        there are.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        make: Callable[[str], T],
        canonical: Callable[[str], str],
    ) -> None:
        self._names = names
        self._make = make
        self._canonical = canonical
        self._kept: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        key = self._canonical(name)
        if key not in self._kept:
            self._kept[key] = self._make(key)
        return self._kept[key]

    def __contains__(self, name: object) -> bool:
        try:
            self._canonical(str(name))
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<of the current selection: {', '.join(self._names)}>"

    def forget(self) -> None:
        """Make everything anew when it is asked for next."""
        self._kept.clear()
