"""One history for the two timelines of a comparison.

Each timeline's state has a history of its own: ``past`` and ``future``, lists of its earlier and
undone values. The pair's history only keeps the order of their entries, as the places of the views
that changed. For example, after a selection on both sides and a zoom of the left one it is
``[(0, 1), (0,)]``: the next undo steps back on side 0, the one after it on both.

The page changes histories as well, and sends them with the values. What has happened then follows
from the history before, the history after, and the new values: see `history_move`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from hta_widgets.widgets.view import HISTORY_LENGTH, LinkedView


def history_move(
    old: Mapping[str, Any], new: Mapping[str, Any], values: Mapping[str, Any]
) -> Literal["undo", "redo", "change"] | None:
    """Return how a view came from one history to another, with these values now.

    None if it made no step, for example if all its windows moved onto another clock.
    """
    past, future = len(new["past"]) - len(old["past"]), len(new["future"]) - len(old["future"])
    if past < 0:
        return "undo" if future > 0 else None
    if new["future"]:
        return "redo" if future < 0 else None
    # The future is empty after a change, and after the redo of the last undone entry. Only the
    # redo restores that entry.
    if future == -1 and {**values, **old["future"][-1]} == values:
        return "redo"
    # A full history does not grow: its first entry is dropped.
    is_shifted = (
        len(old["past"]) == HISTORY_LENGTH
        and new["past"] != old["past"]
        and new["past"][:-1] == old["past"][1:]
    )
    return "change" if past > 0 or is_shifted else None


class PairHistory:
    """The order of the changes of several views, whose states keep the values.

    It observes their histories, whether Python or a page changes them, and records which view
    changed. `js/src/compare/history.ts` does the same for the page's buttons.
    """

    def __init__(self, views: Sequence[LinkedView]) -> None:
        self._views = views
        self._past: list[tuple[int, ...]] = []
        self._future: list[tuple[int, ...]] = []
        self._group: list[int] | None = None
        self._together: str | None = None
        #: the views of a history entry that the page still has to undo or redo, one by one
        self._rest: tuple[int, ...] | None = None
        for place, view in enumerate(views):
            view.state.observe(
                lambda change, place=place: self._on_change(place, change["old"], change["new"]),
                names="_history",
            )

    @contextmanager
    def group_changes(self) -> Iterator[None]:
        """Group all changes in this block, on either side, into one step."""
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
        """Redo one undone step; False if there is none."""
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

    def _on_change(self, place: int, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        move = history_move(old, new, self._views[place].state.snapshot())
        if move is None:
            return
        if self._group is not None:
            self._group.append(place)
        elif move == "undo":
            self._move(place, self._past, self._future)
        elif move == "redo":
            self._move(place, self._future, self._past)
        else:
            self._record_change(place, new.get("together"))

    def _record_change(self, place: int, together: str | None) -> None:
        """Record a change; if the page changes both sides, the two changes arrive one by one."""
        if together and together == self._together and place not in self._past[-1]:
            self._past[-1] = (*self._past[-1], place)
        else:
            self._push((place,))
            self._together = together

    def _push(self, places: tuple[int, ...]) -> None:
        self._past.append(places)
        self._future.clear()
        self._together = self._rest = None

    def _move(
        self, place: int, source: list[tuple[int, ...]], target: list[tuple[int, ...]]
    ) -> None:
        """Record an undo or redo of one side by the page; a step of both arrives in two parts."""
        for at in reversed(range(len(source))):
            entry = source[at]
            if place in entry:
                rest = tuple(other for other in entry if other != place)
                source[at : at + 1] = [rest] if rest else []
                if entry is self._rest and target:
                    target[-1] = (*target[-1], place)
                else:
                    target.append((place,))
                self._rest = rest or None
                return
