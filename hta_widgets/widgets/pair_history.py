"""The joint history of the two timelines in a comparison.

Each timeline has a history of its state: ``past`` and ``future``, lists of earlier and undone
values. The joint history only records their order, as user actions ("acts") with the sides that
they changed. For example, a selection on both sides and a zoom on the left side are recorded as
``(0, 1)`` and ``(0,)``: the first undo affects side 0, the second one both sides. The changes made
by an act arrive one side at a time and are merged into a single entry.

The page changes the histories, too, and sends them together with the values. `history_move` infers
the latest action from the old history, the new history and the new values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from hta_widgets.widgets.view import HISTORY_LENGTH, LinkedView


def history_move(
    old: Mapping[str, Any], new: Mapping[str, Any], values: Mapping[str, Any]
) -> Literal["undo", "redo", "change"] | None:
    """Return the action that led from history `old` to `new`, given the new `values` of the view.

    None means that no step was added or undone, for example because windows moved to another clock.
    """
    past, future = len(new["past"]) - len(old["past"]), len(new["future"]) - len(old["future"])
    if past < 0:
        return "undo" if future > 0 else None
    if new["future"]:
        return "redo" if future < 0 else None
    # The future is empty after a change, and after redoing its last entry. Only redoing restores
    # the values of that entry.
    if future == -1 and {**values, **old["future"][-1]} == values:
        return "redo"
    # When the history is full, it drops its first entry instead of growing.
    is_shifted = (
        len(old["past"]) == HISTORY_LENGTH
        and new["past"] != old["past"]
        and new["past"][:-1] == old["past"][1:]
    )
    return "change" if past > 0 or is_shifted else None


class _Act(NamedTuple):
    """A user action. Its changes on the two sides share a `key`."""

    key: object
    sides: tuple[int, ...]


class PairHistory:
    """The order of changes in several views. The values are stored in the states of these views.

    The class observes the views' histories to record which view changed, in Python or in the page.
    `js/src/compare/history.ts` does the same for the buttons of the page.
    """

    def __init__(self, views: Sequence[LinkedView]) -> None:
        self._views = views
        self._past: list[_Act] = []
        self._future: list[_Act] = []
        #: Sides changed within `group_changes`; None outside of it.
        self._group: list[int] | None = None
        for side, view in enumerate(views):
            view.state.observe(partial(self._on_change, side), names="_history")

    @contextmanager
    def group_changes(self) -> Iterator[None]:
        """Group all changes made in this block, on either side, into a single step."""
        self._group = []
        self._name_act(uuid4().hex)  # lets the history of the page group these changes
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
        """Undo the last step; return False if nothing is left to undo."""
        return self._step(self._past, self._future, "undo")

    def redo(self) -> bool:
        """Redo the last undone step; return False if nothing is left to redo."""
        return self._step(self._future, self._past, "redo")

    def _step(
        self, source: list[_Act], target: list[_Act], action: Literal["undo", "redo"]
    ) -> bool:
        while source:
            act = source.pop()
            self._group = []
            try:
                sides = [side for side in act.sides if getattr(self._views[side], action)()]
            finally:
                self._group = None
            if sides:
                target.append(_Act(act.key, tuple(sides)))
                return True
        return False

    def _on_change(self, side: int, change: Mapping[str, Any]) -> None:
        new = change["new"]
        move = history_move(change["old"], new, self._views[side].state.snapshot())
        if move is None:
            return
        if self._group is not None:
            self._group.append(side)
        elif move == "undo":
            self._move(side, self._past, self._future)
        elif move == "redo":
            self._move(side, self._future, self._past)
        else:
            _add_side(self._past, side, new.get("together") or object())
            self._future.clear()

    def _move(self, side: int, source: list[_Act], target: list[_Act]) -> None:
        for index in reversed(range(len(source))):
            key, sides = source[index]
            if side in sides:
                others = tuple(other for other in sides if other != side)
                source[index : index + 1] = [_Act(key, others)] if others else []
                _add_side(target, side, key)
                return


def _add_side(acts: list[_Act], side: int, key: object) -> None:
    if acts and acts[-1].key == key and side not in acts[-1].sides:
        acts[-1] = _Act(key, (*acts[-1].sides, side))
    else:
        acts.append(_Act(key, (side,)))
