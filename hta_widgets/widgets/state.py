"""What linked views share: window, selection, search, colours, pins, and how to undo them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anywidget
import traitlets as t

from hta_widgets.widgets.assets import asset

__all__ = ["SHARED", "State"]

#: The traits that a view of one job shares with the others; together one entry of the history.
SHARED = (
    "view",
    "selection",
    "selected_event",
    "search",
    "color",
    "pinned",
    "ranks_from",
    "scope",
)
HISTORY_LENGTH = 100


class State(anywidget.AnyWidget):
    """The shared state of linked views: a widget without a view of its own.

    Views in the page listen to it directly, so linking works while the kernel is busy and after
    it is gone; Python observes the same traits.

    Attributes
    ----------
    view : tuple of int or None
        Window in ns since the origin; None is the whole job.
    selection : dict or None
        A `Selection` as plain values; None selects everything.
    selected_event : tuple of int or None
        ``(rank, id)`` of the event whose details are shown.
    search : str
        Text whose matches are marked.
    color : str
        ``"kind"`` or ``"name"``.
    pinned : list of str
        ``"5"`` for rank 5, ``"5/GPU 0 · stream 7"`` for one of its tracks.
    ranks_from : str
        The panel that chose the selection's ranks; empty where Python did, or nobody. In a
        dashboard, the timeline hides other ranks unless it chose them itself.
    scope : str
        What a dashboard's figures are of: ``"selection"``, or ``"view"`` for the window in view
        where the selection has none.
    """

    view = t.Tuple(t.Int(), t.Int(), allow_none=True, default_value=None).tag(sync=True)
    selection = t.Dict(allow_none=True, default_value=None).tag(sync=True)
    selected_event = t.Tuple(t.Int(), t.Int(), allow_none=True, default_value=None).tag(sync=True)
    search = t.Unicode("").tag(sync=True)
    color = t.Enum(("kind", "name"), default_value="kind").tag(sync=True)
    pinned = t.List(t.Unicode()).tag(sync=True)
    ranks_from = t.Unicode("").tag(sync=True)
    scope = t.Enum(("selection", "view"), default_value="selection").tag(sync=True)
    _history: t.Dict[str, Any] = t.Dict({"past": [], "future": []}).tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        self._esm = asset("state.js").read_text("utf-8")
        self._recording = False
        super().__init__(**traits)
        self._last = self.snapshot()
        self._recording = True
        self.observe(self._record, names=list(SHARED))

    def snapshot(self) -> dict[str, Any]:
        """Return the shared values as JSON: what one undo brings back."""
        return {
            "view": None if self.view is None else list(self.view),
            "selection": self.selection,
            "selected_event": None if self.selected_event is None else list(self.selected_event),
            "search": self.search,
            "color": self.color,
            "pinned": list(self.pinned),
            "ranks_from": self.ranks_from,
            "scope": self.scope,
        }

    def undo(self) -> bool:
        """Go back one change of the shared state; False if there is none."""
        return self._step("past", "future")

    def redo(self) -> bool:
        """Take back one undo; False if there is none."""
        return self._step("future", "past")

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply what the page sent; the page keeps the history of its own gestures."""
        with self._unrecorded():
            super().set_state(sync_data)

    @contextmanager
    def one_change(self) -> Iterator[None]:
        """Group several assignments into one entry of the history."""
        before = self.snapshot()
        with self._unrecorded(), self.hold_sync():
            yield
        if self.snapshot() != before:
            self._push(before)

    @contextmanager
    def _unrecorded(self) -> Iterator[None]:
        recording, self._recording = self._recording, False
        try:
            yield
        finally:
            self._recording = recording
            self._last = self.snapshot()

    def _record(self, _change: object) -> None:
        if not self._recording:
            return
        now = self.snapshot()
        if now != self._last:
            before, self._last = self._last, now
            self._push(before)

    def _push(self, before: dict[str, Any]) -> None:
        past = [*self._history["past"], before][-HISTORY_LENGTH:]
        self._history = {"past": past, "future": []}

    def _step(self, source: str, target: str) -> bool:
        entries = list(self._history[source])
        if not entries:
            return False
        there = entries.pop()
        here = self.snapshot()
        history = {source: entries, target: [*self._history[target], here]}
        with self._unrecorded(), self.hold_sync():
            for name in SHARED:
                setattr(self, name, there.get(name, self.trait_defaults()[name]))
            self._history = {"past": history["past"], "future": history["future"]}
        return True
