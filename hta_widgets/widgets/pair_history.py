"""One history for two timelines: which of them changed last, and what was undone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["PairHistory"]


class _View(Protocol):
    state: Any

    def undo(self) -> bool: ...

    def redo(self) -> bool: ...


class PairHistory:
    """The order of the changes of several views, each of which keeps its own values.

    Whatever changes or undoes them, here or in a page, their histories tell: this one only keeps
    whose turn it is. `js/src/compare/pair_history.ts` does the same for the page's buttons.

    Parameters
    ----------
    views : sequence of Timeline
    """

    def __init__(self, views: Sequence[_View]) -> None:
        self._views = views
        self._past: list[tuple[int, ...]] = []
        self._future: list[tuple[int, ...]] = []
        self._group: list[int] | None = None
        self._together: str | None = None
        #: what is left of an entry that somebody else has begun to undo or redo
        self._rest: tuple[int, ...] | None = None
        for place, view in enumerate(views):
            view.state.observe(
                lambda change, place=place: self._heard(place, change["old"], change["new"]),
                names="_history",
            )

    @contextmanager
    def one_change(self) -> Iterator[None]:
        """Group what changes meanwhile, on whichever side, into one step."""
        self._group = []
        try:
            yield
        finally:
            group, self._group = self._group, None
            if group:
                self._push(tuple(dict.fromkeys(group)))

    def undo(self) -> bool:
        """Go back one step; False if there is none."""
        return self._step(self._past, self._future, "undo")

    def redo(self) -> bool:
        """Take back one `undo`; False if there is none."""
        return self._step(self._future, self._past, "redo")

    def _step(self, source: list[tuple[int, ...]], target: list[tuple[int, ...]], way: str) -> bool:
        while source:
            places = source.pop()
            self._together = self._rest = None
            self._group = []
            try:
                done = [place for place in places if getattr(self._views[place], way)()]
            finally:
                self._group = None
            if done:
                target.append(tuple(done))
                return True
        return False

    def _heard(self, place: int, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        past = len(new["past"]) - len(old["past"])
        future = len(new["future"]) - len(old["future"])
        if self._group is not None:
            self._group.append(place)
        elif past < 0 < future:
            self._turn(place, self._past, self._future)
        # A change forgets what was undone: where one was, a redo looks like it.
        elif future < 0 < past and new["future"]:
            self._turn(place, self._future, self._past)
        # A full history grows no more: its last entry is another one.
        elif not new["future"] and new["past"] and (past > 0 or new["past"] != old["past"]):
            self._changed(place, new.get("together"))

    def _changed(self, place: int, together: str | None) -> None:
        """Count a change; what the page changed on both sides in one act arrives one by one."""
        if together and together == self._together and place not in self._past[-1]:
            self._past[-1] = (*self._past[-1], place)
        else:
            self._push((place,))
            self._together = together

    def _push(self, places: tuple[int, ...]) -> None:
        self._past.append(places)
        self._future.clear()
        self._together = self._rest = None

    def _turn(
        self, place: int, source: list[tuple[int, ...]], target: list[tuple[int, ...]]
    ) -> None:
        """Somebody else undid or redid on one side; of an entry of both, one by one."""
        for at in reversed(range(len(source))):
            entry = source[at]
            if place in entry:
                rest = tuple(one for one in entry if one != place)
                source[at : at + 1] = [rest] if rest else []
                if entry is self._rest and target:
                    target[-1] = (*target[-1], place)
                else:
                    target.append((place,))
                self._rest = rest or None
                return
