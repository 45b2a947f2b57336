"""One history for the two timelines of a comparison.

Each timeline's state has a history of its own: ``past`` and ``future``, lists of its earlier and
undone values. The pair's history only keeps the order of their entries, as acts with the places of
the views that changed. For example, after a selection on both sides and a zoom of the left one it
has the places ``(0, 1)`` and ``(0,)``: the next undo steps back on side 0, the undo after it on
both. Steps of one side that belong to an act arrive one by one, and join its entry.

The page changes histories as well, and sends them with the values. The last action then follows
from the history before, the history after, and the new values: see `history_move`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from uuid import uuid4

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


class _Act(NamedTuple):
    """A user's change; `key` is equal for all its steps, whichever side they are of."""

    key: object
    places: tuple[int, ...]


class PairHistory:
    """The order of the changes of several views, whose states keep the values.

    It observes their histories, whether Python or a page changes them, and records which view
    changed. `js/src/compare/history.ts` does the same for the page's buttons.
    """

    def __init__(self, views: Sequence[LinkedView]) -> None:
        self._views = views
        self._past: list[_Act] = []
        self._future: list[_Act] = []
        self._group: list[int] | None = None
        for place, view in enumerate(views):
            view.state.observe(
                lambda change, place=place: self._on_change(place, change["old"], change["new"]),
                names="_history",
            )

    @contextmanager
    def group_changes(self) -> Iterator[None]:
        """Group all changes in this block, on either side, into one step."""
        self._group = []
        self._name_act(uuid4().hex)  # so that the page's history joins them, too
        try:
            yield
        finally:
            self._name_act(None)
            group, self._group = self._group, None
            if group:
                self._past.append(_Act(object(), tuple(dict.fromkeys(group))))
                self._future.clear()

    def _name_act(self, act: str | None) -> None:
        for view in self._views:
            view.state.act = act

    def undo(self) -> bool:
        """Go back one step; False if there is none."""
        return self._step(self._past, self._future, "undo")

    def redo(self) -> bool:
        """Redo one undone step; False if there is none."""
        return self._step(self._future, self._past, "redo")

    def _step(self, source: list[_Act], target: list[_Act], way: Literal["undo", "redo"]) -> bool:
        while source:
            act = source.pop()
            self._group = []
            try:
                places = [place for place in act.places if getattr(self._views[place], way)()]
            finally:
                self._group = None
            if places:
                target.append(_Act(act.key, tuple(places)))
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
            _add_place(self._past, place, new.get("together") or object())
            self._future.clear()

    def _move(self, place: int, source: list[_Act], target: list[_Act]) -> None:
        """Record an undo or redo of one side by the page."""
        for index in reversed(range(len(source))):
            key, places = source[index]
            if place in places:
                others = tuple(other for other in places if other != place)
                source[index : index + 1] = [_Act(key, others)] if others else []
                _add_place(target, place, key)
                return


def _add_place(acts: list[_Act], place: int, key: object) -> None:
    """Add a place to the last act if that has the key, else as a new act."""
    if acts and acts[-1].key == key and place not in acts[-1].places:
        acts[-1] = _Act(key, (*acts[-1].places, place))
    else:
        acts.append(_Act(key, (place,)))
