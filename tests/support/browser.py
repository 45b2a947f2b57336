"""A browser without network access, and pointer actions like those of a user."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, Error, FloatRect, Locator, Page

#: The headless shell has no windows, so it opens a page in a third of the CPU time.
BROWSERS = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium")
_present = next(filter(os.path.exists, BROWSERS), BROWSERS[-1])
CHROMIUM = Path(os.environ.get("HTA_CHROMIUM") or _present)

#: No sandbox, because containers run as root. The other flags keep the browser off the network.
FLAGS = [
    *json.loads(Path(__file__).with_name("chromium.json").read_text("utf-8")),
    # Pages can reach this machine only.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1 , EXCLUDE localhost",
]

#: Timeout in seconds for a page to reach an expected state.
WAIT_S = 60
LOCAL_SCHEMES = {"about", "blob", "chrome-extension", "data", "file"}
LOCAL_HOSTS = {"127.0.0.1", "localhost"}


def is_local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in LOCAL_SCHEMES or parts.hostname in LOCAL_HOSTS


@dataclass
class Guard:
    """Records uncaught exceptions and requests to other machines."""

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def watch(self, context: BrowserContext) -> Self:
        context.on("request", lambda request: self._note(request.url))
        context.on("page", self._watch_sockets)
        context.on("weberror", lambda event: self._note_error(event.error))
        return self

    def judge(self) -> None:
        """Fail if a page sent a request to another machine or raised an uncaught exception."""
        outside, errors = self.outside[:], self.errors[:]
        # The next test may use the same pages, so it starts with empty lists.
        self.outside.clear()
        self.errors.clear()
        assert outside == [], f"pages requested other machines: {outside}"
        assert errors == [], f"exceptions that no page caught: {errors}"

    def _watch_sockets(self, page: Page) -> None:
        page.on("websocket", lambda socket: self._note(socket.url))

    def _note_error(self, error: Error) -> None:
        # Notebook 7 raises two errors of its own at each start, and JupyterLab one if themes change
        # quickly. Our errors come from Blob URLs, files, or our extension.
        stack = error.stack or ""
        is_theirs = "/static/notebook/" in stack or "/static/lab/" in stack
        if not is_theirs or "blob:" in stack or "hta-widgets" in stack:
            self.errors.append(error.message)

    def _note(self, url: str) -> None:
        if not is_local(url):
            self.outside.append(url)


def _points(target: Locator, *places: tuple[float, float]) -> list[tuple[float, float]]:
    """Return page coordinates of points in an element; negative ones count from the far edge."""
    boxes: list[FloatRect | None] = []

    def is_at_rest() -> bool:
        boxes.append(target.bounding_box())
        return boxes[-1] is not None and boxes[-2:-1] == boxes[-1:]

    wait_until(target.page, is_at_rest, f"{target} is on the screen and at rest")
    box = boxes[-1]
    assert box is not None
    return [
        (
            box["x"] + x + (box["width"] if x < 0 else 0),
            box["y"] + y + (box["height"] if y < 0 else 0),
        )
        for x, y in places
    ]


def _hold(page: Page, keys: Sequence[str], *, down: bool) -> None:
    for key in keys:
        (page.keyboard.down if down else page.keyboard.up)(key)


def drag(
    target: Locator,
    start: tuple[float, float],
    end: tuple[float, float],
    *,
    keys: Sequence[str] = (),
    steps: int = 8,
) -> None:
    """Drag inside an element, in several steps like a user."""
    page = target.page
    target.scroll_into_view_if_needed()
    first, last = _points(target, start, end)
    page.mouse.move(*first)
    _hold(page, keys, down=True)
    page.mouse.down()
    page.mouse.move(*last, steps=steps)
    page.mouse.up()
    _hold(page, keys, down=False)


def wheel(
    target: Locator,
    at: tuple[float, float],
    delta_y: float,
    *,
    keys: Sequence[str] = (),
) -> None:
    """Turn the mouse wheel at a point of an element, while `keys` are held."""
    page = target.page
    page.mouse.move(*_points(target, at)[0])
    _hold(page, keys, down=True)
    page.mouse.wheel(0, delta_y)
    _hold(page, keys, down=False)


def hover(target: Locator, at: tuple[float, float]) -> None:
    target.page.mouse.move(*_points(target, at)[0], steps=4)


def click(target: Locator, at: tuple[float, float], *, keys: Sequence[str] = ()) -> None:
    """Click a point of an element, while `keys` are held."""
    page = target.page
    x, y = _points(target, at)[0]
    _hold(page, keys, down=True)
    page.mouse.click(x, y)
    _hold(page, keys, down=False)


_FRAMES = """left => new Promise(done => {
  const next = () => {
    left -= 1;
    if (left > 0) requestAnimationFrame(next);
    else setTimeout(done);
  };
  requestAnimationFrame(next);
})"""


def wait_for_frames(page: Page, count: int = 4) -> None:
    """Wait for a few animation frames, after which pending drawing is done."""
    page.evaluate(_FRAMES, count)


def wait_until(page: Page, condition: Callable[[], bool], what: str) -> None:
    """Wait until `condition` returns true; it is called every two frames."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {WAIT_S} s: {what}"
        wait_for_frames(page, 2)


_COLORS = """el => {
  const seen = new Set();
  for (const node of el.querySelectorAll("canvas")) {
    const g = node.getContext("2d");
    if (!g || !node.width) continue;
    const { data } = g.getImageData(0, 0, node.width, node.height);
    for (let i = 0; i < data.length; i += 4)
      if (data[i + 3] === 255) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  }
  return [...seen].map(c => "#" + c.toString(16).padStart(6, "0"));
}"""


def colors_of(stage: Locator) -> set[str]:
    return set(stage.evaluate(_COLORS))


def wait_for_colors(stage: Locator, *colors: str) -> None:
    """Wait until a stage shows all of these colors."""
    stage.page.wait_for_function(
        f"([el, wanted]) => {{ const seen = ({_COLORS})(el);"
        " return wanted.every(color => seen.includes(color)); }",
        arg=[stage.element_handle(), list(colors)],
    )
