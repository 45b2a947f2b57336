"""Drives a dashboard in a browser and reads its numbers from the files it saves."""

import io
import re
from collections.abc import Sequence

import numpy as np
import pandas as pd
from playwright.sync_api import Locator, Page, expect
from support.browser import click, drag, wait_for_frames, wait_until

import hta_widgets as hw
from hta_widgets.live.job import PanelEngine
from hta_widgets.trace.traceset import Selection

#: Panels whose numbers are compared. The heatmap has a separate test.
PANELS = (
    "breakdown", "overlap", "idle", "queue", "kernel_types", "kernel_durations", "steps",
    "kernels", "operators",
)  # fmt: skip

GUTTER, MARGIN = 164, 128
HEAD = 32 + 4 + 20 + 48 + 2
COMPUTE = "#1f77c0"

#: Returns the y coordinates at which a canvas has pixels of a color, in CSS px from its top.
_ROWS = """(canvas, color) => {
  const [r, g, b] = [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16));
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const rows = [];
  for (let y = 0; y < height; y += 1) {
    let count = 0;
    for (let x = 0; x < width; x += 1) {
      const at = 4 * (y * width + x);
      count += data[at] === r && data[at + 1] === g && data[at + 2] === b;
    }
    if (count > 12) rows.push(y);
  }
  return rows.map(y => y * canvas.getBoundingClientRect().height / height);
}"""


class Dash:
    """A dashboard on a page, and the job it shows."""

    def __init__(self, page: Page, traces: hw.TraceSet, root: Locator | None = None) -> None:
        self.page = page
        self.traces = traces
        self.root = root or page.locator(".hta-dash")
        self.timeline = self.panel("timeline").locator(".hta-stage-frame")
        self.engine = PanelEngine(traces)
        expect(self.root).to_be_visible(timeout=60_000)

    def panel(self, name: str) -> Locator:
        return self.root.locator(f"[data-panel={name}]")

    def ready(self, *names: str) -> None:
        """Wait until panels show the numbers of the current selection."""
        for name in names:
            panel = self.panel(name)
            panel.scroll_into_view_if_needed()
            # Panels request their numbers one frame after they scroll into view.
            wait_for_frames(self.page)
            expect(panel).to_have_attribute("aria-busy", "false", timeout=30_000)

    def shows_ranks(self, count: int) -> None:
        """Check the number of ranks that the timeline shows; the text is empty if it shows all."""
        message = self.root.locator(".hta-ranks-shown")
        if count == len(self.traces):
            expect(message).to_be_hidden()
        else:
            expect(message).to_be_visible()
            expect(message).to_contain_text(f"{count} of {len(self.traces)} ranks shown")

    def chart(self, name: str) -> Locator:
        """Return the canvas of a chart, once it is drawn."""
        canvas = self.panel(name).locator("canvas").first
        canvas.scroll_into_view_if_needed()
        expect(canvas).to_be_visible(timeout=60_000)
        return canvas

    # --- what a user does -------------------------------------------------------------------------

    def click_bar(self, panel: str, rank: int) -> None:
        """Click the bar of a rank; bars are in the order of ranks."""
        self.ready(panel)
        # A new layout replaces the canvas of a chart and moves everything below it.
        looks: list[list[float]] = []

        def is_at_rest() -> bool:
            canvas = self.chart(panel)
            box = canvas.bounding_box()
            looks.append([*canvas.evaluate(_ROWS, COMPUTE), *(box or {}).values()])
            return len(looks[-1]) > 24 and looks[-2:-1] == looks[-1:]

        wait_until(self.page, is_at_rest, f"bars of compute in {panel}")
        canvas, rows = self.chart(panel), np.array(looks[-1][:-4])
        # The legend key has the same color; it lies above the bars.
        groups = np.split(rows, np.flatnonzero(np.diff(rows) > 2) + 1)
        bars = [group for group in groups if len(group) > 8][-len(self.traces) :]
        assert len(bars) == len(self.traces), f"{len(bars)} bars of {len(self.traces)} ranks"
        y = float(bars[list(self.traces).index(rank)].mean())
        click(canvas, (canvas.bounding_box()["width"] * 0.3, y))

    def drag_window(self, start_ns: float, end_ns: float, *, down: float = HEAD + 24) -> None:
        """Select a window in the timeline of the whole job, on its top row or down to `down`."""
        self.timeline.scroll_into_view_if_needed()
        first, last = self.traces.start_ns, self.traces.end_ns
        box = self.timeline.bounding_box()
        margin = MARGIN if box["width"] >= 900 else 0
        across = box["width"] - GUTTER - margin
        x0, x1 = (GUTTER + (t - first) / (last - first) * across for t in (start_ns, end_ns))
        # With Alt, the edges do not snap to events.
        drag(self.timeline, (x0, HEAD + 20), (x1, down), keys=["Alt"])

    def undo(self) -> None:
        self.root.get_by_role("button", name="Undo").first.click()

    # --- texts ------------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        return self.panel("selection").locator(".hta-sel-code").inner_text().strip()

    @property
    def selection(self) -> Selection | None:
        """Return the selection in the offered code; None before any code is offered."""
        match = re.search(r"traces(\.with_clock\(.\w+.\))?\.select\(.*\)", self.code, re.DOTALL)
        return eval(match[0], {"traces": self.traces, "hw": hw}) if match else None

    def selects(self, selection: Selection) -> None:
        """Wait until the dashboard has this selection."""
        wait_until(self.page, lambda: self.selection == selection, f"{selection} is selected")

    def numbers(self, name: str) -> pd.DataFrame:
        """Return the numbers of a panel from the CSV file it saves."""
        self.ready(name)
        return pd.read_csv(io.BytesIO(self.saved(name, "Save as CSV")))

    def saved(self, name: str, text: str) -> bytes:
        """Choose an entry of a panel's menu and return the file it saves."""
        self.panel(name).get_by_role("button", name=re.compile("save, copy, hide")).click()
        with self.page.expect_download() as started:
            self.root.locator(".hta-menu-item").get_by_text(text, exact=True).click()
        return started.value.path().read_bytes()

    def share(self, text: str) -> None:
        self.root.get_by_role("button", name=re.compile("^Share what")).click()
        self.root.locator(".hta-menu-item").get_by_text(text, exact=True).click()

    def copied_link(self) -> str:
        """Choose `Copy link` and return the text on the clipboard."""
        read = "navigator.clipboard.readText()"
        self.page.evaluate("navigator.clipboard.writeText('')")
        self.share("Copy link")
        wait_until(self.page, lambda: self.page.evaluate(read) != "", "a link is copied")
        return self.page.evaluate(read)

    def has_numbers_of(self, selection: Selection, panels: Sequence[str] = PANELS) -> None:
        """Compare panels with the analyses of a selection."""
        for name in panels:
            shown, wanted = self.numbers(name), self.engine.frame(name, selection)
            assert list(shown.columns) == list(wanted.columns), name
            assert len(shown) == len(wanted), name
            for column in wanted:
                _compare(shown[column], wanted[column], f"{name}.{column} of {selection}")


def _compare(shown: pd.Series, wanted: pd.Series, what: str) -> None:
    if pd.api.types.is_numeric_dtype(wanted.dtype):
        rtol = 0 if pd.api.types.is_integer_dtype(wanted.dtype) else 1e-9
        left, right = shown.to_numpy(float), wanted.to_numpy(float)
        np.testing.assert_allclose(left, right, rtol=rtol, atol=0, err_msg=what)
    else:
        # In a CSV file, missing and empty texts look the same.
        left, right = (
            ["" if pd.isna(value) else str(value) for value in column] for column in (shown, wanted)
        )
        assert left == right, what
