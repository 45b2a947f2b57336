"""A saved page, opened as a file: the gestures of the notebook without a kernel or network."""

import base64
import random
import re

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser import Guard, click, drag, wait_for_colors, wait_until, wheel
from support.collective_job import US, collective
from support.small import EPOCH_NS, read, write

import hta_widgets as hw
from hta_widgets.export.pages.page import save_html
from hta_widgets.live.job import TileEngine

GUTTER, MARGIN = 164, 128
LAST_RANKS = 32 + 4 + 20 + 16 + 8  # middle of the row of last ranks
HEAD = 32 + 4 + 20 + 32 + 2  # overview, axis, steps and last ranks
PITCH = 57  # height of a folded rank with one thread and lateness marks
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GEMM = "void gemm_kernel<float, 128>(float*)"
HOSTILE = "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>"
STEP_US = 10_000


def complete(name, cat, pid, tid, ts, dur, **args):
    event = {"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
    return {**event, "args": args}


def records(rank, steps, rng=None):
    yield {"ph": "M", "name": "process_name", "pid": 10, "tid": 0, "args": {"name": HOSTILE}}
    yield {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}
    correlation = 0
    for step in range(steps):
        at = step * STEP_US
        yield complete(f"ProfilerStep#{step}", "user_annotation", 10, 100, at, STEP_US)
        for k in range(40):
            correlation += 1
            ts = at + 100 + k * 200
            link = {"correlation": correlation}
            yield complete("aten::mm", "cpu_op", 10, 100, ts, 150, shape=[[2, k], []], **link)
            yield complete("cudaLaunchKernel", "cuda_runtime", 10, 100, ts + 10, 9, **link)
            device = {**link, "stream": 7, "grid": [k, 1, 1], "note": HOSTILE}
            name = HOSTILE if k == 20 else GEMM
            noise = 0 if rng is None else rng.randrange(50_000) / 1000
            yield complete(name, "kernel", 0, 7, ts + 40 + k % 7 + noise, 100 + k - noise, **device)
        correlation += 1
        size = {"In msg nelems": 1048576 + rank, "stream": 20, "correlation": correlation}
        yield complete(NCCL, "kernel", 0, 20, at + 8200, 1500, **size)


def write_job(folder, ranks=3, steps=3, rng=None):
    every = (list(records(rank, steps, rng)) for rank in range(ranks))
    return read(write(folder, *every, base_ns=EPOCH_NS))


class Saved:
    """An open page, and positions on it."""

    def __init__(self, page: Page, path, view) -> None:
        self.page, self.path, self.view = page, path, view
        self.console: list[str] = []
        self.requests: list[str] = []
        # Chromium logs a warning when a test reads a canvas.
        page.on("console", lambda said: "readback" in said.text or self.console.append(said.text))
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(path.as_uri())
        self.root = page.locator(".hta-root")
        self.stage = self.root.locator(".hta-stage-frame")
        self.words = self.root.locator(".hta-status .hta-words")

    def x(self, time_ns: float) -> float:
        start, end = self.view
        width = self.stage.bounding_box()["width"]
        return GUTTER + (time_ns - start) / (end - start) * (width - GUTTER - MARGIN)

    def gpu(self, rank: int) -> float:
        return HEAD + PITCH * rank + 3 + 12

    def nccl(self, rank: int) -> float:
        return HEAD + PITCH * rank + 3 + 24 + 1 + 7

    def fact(self, key: str) -> Locator:
        rows = self.root.locator(".hta-arglist .hta-fact")
        return rows.filter(has=self.page.get_by_text(key, exact=True))


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return write_job(tmp_path_factory.mktemp("job"))


@pytest.fixture(scope="module")
def engine(traces):
    return TileEngine(traces)


@pytest.fixture
def open_page(page, engine, tmp_path, built):
    opened = []

    def save(of=engine, *, view=None, state=None, **options):
        path = tmp_path / "saved.html"
        scene = of.scene()
        shown = list(view or scene["range"])
        save_html(path, of, scene, {"view": shown, **(state or {})}, **options)
        opened.append(Saved(page, path, shown))
        return opened[-1]

    yield save
    for opened_page in opened:
        assert opened_page.console == []
        others = {url for url in opened_page.requests if not url.startswith("blob:")}
        assert others == {opened_page.path.as_uri()}


def test_the_page_paints_and_says_what_it_is(open_page, traces, screenshot):
    saved = open_page()
    expect(saved.words).to_contain_text("Whole job")
    expect(saved.root.locator("[role=row]")).to_have_count(3)
    wait_for_colors(saved.stage, "#1f77c0", "#e0630f")
    expect(saved.root).to_contain_text("Saved view")
    footer = saved.page.locator("footer")
    text = re.compile(r"^Saved \d{4}-\d\d-\d\d .* 3 files")
    expect(footer.locator("summary")).to_contain_text(text)
    expect(footer.locator("summary")).to_contain_text("All events.")
    footer.locator("summary").click()
    expect(footer).to_contain_text("rank-2.json")
    expect(footer).to_contain_text("in this page: arguments")
    expect(saved.page.locator("noscript")).to_be_hidden()
    screenshot(saved.page, "saved_page")


def test_ctrl_wheel_zooms_keys_pan_and_undo_goes_back(open_page):
    saved = open_page()
    expect(saved.words).to_contain_text("idle")
    full = saved.words.inner_text()
    assert full.startswith("Whole job")
    wheel(saved.stage, (500, 200), -400, keys=["Control"])
    expect(saved.words).not_to_contain_text("Whole job")
    saved.root.focus()
    saved.page.keyboard.press("Control+z")
    expect(saved.words).to_have_text(full)
    saved.page.keyboard.press("Control+Shift+z")
    expect(saved.words).to_contain_text("idle")
    expect(saved.words).not_to_have_text(full)
    zoomed = saved.words.inner_text()
    saved.page.keyboard.press("d", delay=120)
    expect(saved.words).not_to_have_text(zoomed)


def test_a_click_shows_an_event_with_its_arguments_and_arrows(open_page, traces, screenshot):
    saved = open_page(view=(8_000_000, 10_000_000))
    wait_for_colors(saved.stage, "#e0630f")
    click(saved.stage, (saved.x(9_000_000), saved.nccl(1)))
    details = saved.root.locator(".hta-details")
    expect(details).to_contain_text(NCCL[:40])
    expect(saved.fact("In msg nelems")).to_contain_text("1048577")
    # The timeline shrinks, so that the whole panel fits in the window.
    saved.page.wait_for_function("() => document.documentElement.scrollHeight <= innerHeight + 8")
    expect(saved.page.locator("footer summary")).to_be_in_viewport()
    screenshot(saved.page, "saved_page_details")
    saved.page.keyboard.press("Escape")
    saved.page.keyboard.press("Escape")
    saved.page.keyboard.press("/")
    saved.page.keyboard.type("onerror")
    saved.page.keyboard.press("Enter")
    expect(details).to_contain_text(HOSTILE)
    expect(saved.fact("note")).to_contain_text(HOSTILE)
    expect(details).to_contain_text("cudaLaunchKernel")
    saved.root.focus()
    saved.page.keyboard.press("[")
    # The first event after the view, in the second step; its launch has the same correlation.
    rows = traces[0].events
    correlation = int(rows[rows.name == HOSTILE].correlation.iloc[1])
    expect(saved.fact("correlation")).to_contain_text(str(correlation))
    expect(details).to_contain_text("cuda_runtime")


def test_search_counts_and_steps_through_hits(open_page):
    saved = open_page()
    saved.root.focus()
    saved.page.keyboard.press("/")
    saved.page.keyboard.type("nccl")
    expect(saved.root.locator(".hta-search .hta-count")).to_contain_text("9")
    for hit in range(1, 5):
        saved.page.keyboard.press("Enter")
        expect(saved.words).to_contain_text(f"hit {hit} of 9")
    expect(saved.root.locator(".hta-details")).to_contain_text("rank 1")
    expect(saved.root.locator(".hta-details")).to_contain_text(NCCL[:40])


def test_a_search_that_would_backtrack_for_ever_is_answered(open_page):
    saved = open_page()
    saved.root.focus()
    saved.page.keyboard.press("/")
    count = saved.root.locator(".hta-search .hta-count")
    saved.page.keyboard.type(r"/(\w+)+!$/")  # the 39 letters of the name can be split in 2**38 ways
    expect(count).to_have_text("no hit")
    saved.root.locator(".hta-search input").fill(r"/(\w+)+\(nccl/")
    expect(count).to_contain_text("9")
    saved.root.locator(".hta-search input").fill(r"/(?=nccl)/")
    expect(count).to_have_attribute("title", re.compile("not supported"))


def test_a_dragged_selection_has_the_totals_that_python_has(open_page, traces, screenshot):
    saved = open_page()
    expect(saved.words).to_contain_text("Whole job")
    left, right = saved.x(11_000_000), saved.x(16_000_000)
    drag(saved.stage, (left, saved.gpu(1)), (right, saved.gpu(2)), keys=["Alt"])
    panel = saved.root.locator(".hta-area")
    expect(panel).to_contain_text("gemm 128")
    expect(saved.words).to_contain_text(re.compile(r"–.*ms.* events"))
    message = saved.words.inner_text()
    start, end = (
        float(text.replace("\u202f", "")) * 1e6
        for text in re.search(r"([\d.\u202f]+)–([\d.\u202f]+)\s*ms", message).groups()
    )
    chosen = traces.select(start_ns=round(start), end_ns=round(end), ranks=[1, 2])
    count = len(chosen.events())
    # The status line rounds the window, so events near its edges may differ.
    shown = re.search(r"([\d\u202f]+) events", message)[1]
    assert int(re.sub(r"\D", "", shown)) == pytest.approx(count, abs=6)
    screenshot(saved.page, "saved_page_selection")
    saved.page.keyboard.press("Control+z")
    expect(panel).to_have_count(0)


def test_an_export_from_the_page_is_a_trace_again(open_page, traces, tmp_path):
    saved = open_page(
        state={
            "selection": {
                "start_ns": 10_000_000, "end_ns": 20_000_000, "ranks": [1],
                "tracks": None, "query": "kind == 'communication'", "ids": None,
            }
        }
    )  # fmt: skip
    expect(saved.root.locator(".hta-area")).to_be_visible()
    saved.root.focus()
    saved.page.keyboard.press("x")
    saved.root.locator(".hta-export .hta-path").fill("part.json.gz")
    with saved.page.expect_download() as download:
        saved.root.get_by_role("button", name="Write file").click()
    path = tmp_path / "part.json.gz"
    download.value.save_as(path)
    assert download.value.suggested_filename == "part.json.gz"
    expect(saved.root.locator(".hta-result")).to_contain_text("part.json.gz")
    again = hw.load(path, progress=False, cache=False)
    events = again[1].events
    assert list(events.name) == [NCCL]
    assert again[1].args(0) == traces[1].args(int(np.flatnonzero(traces[1].events.name == NCCL)[1]))


def test_a_picture_from_the_page_is_what_python_draws(open_page, traces, tmp_path, new_context):
    saved = open_page(view=[10_000_000, 20_000_000])
    saved.root.get_by_text("Export…").click()
    with saved.page.expect_download() as started:
        saved.root.get_by_text("SVG of this view").click()
    started.value.save_as(tmp_path / "page.svg")
    width = saved.stage.bounding_box()["width"]
    timeline = hw.Timeline(traces)
    timeline.to_svg(tmp_path / "python.svg", width=width, view=(10_000_000, 20_000_000))
    inks = []
    for name in ("page", "python"):
        picture = new_context().new_page()
        picture.goto((tmp_path / f"{name}.svg").as_uri())
        for rank in range(3):
            expect(picture.locator("text").filter(has_text=f"rank {rank}").first).to_be_visible()
        inks.append(picture.evaluate(_INK, ["#1f77c0", "#e0630f"]))
    # Tiles and events cover the same time with compute and with communication.
    for page, python in zip(*inks, strict=True):
        assert page == pytest.approx(python, rel=0.03)
        assert page > 1000


#: Number of pixels closest to each color, in the picture below its legend.
_INK = """colors => {
  const GROUNDS = ["#ffffff", "#f1f3f6", "#4a4f5c", "#5b0a80", "#fde3d0", "#12171e"];
  const svg = document.documentElement;
  const text = new XMLSerializer().serializeToString(svg);
  const image = new Image();
  return new Promise(done => {
    image.onload = () => {
      const canvas = new OffscreenCanvas(image.width, image.height);
      const ctx = canvas.getContext("2d");
      ctx.drawImage(image, 0, 0);
      const { data } = ctx.getImageData(0, 80, image.width, image.height - 80);
      const rgb = color => [1, 3, 5].map(at => parseInt(color.slice(at, at + 2), 16));
      const known = [...colors, ...GROUNDS].map(rgb);
      const counts = known.map(() => 0);
      for (let i = 0; i < data.length; i += 4) {
        const away = known.map(c => Math.hypot(...c.map((v, k) => v - data[i + k])));
        counts[away.indexOf(Math.min(...away))] += 1;
      }
      done(counts.slice(0, colors.length));
    };
    image.src = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  });
}"""


def test_names_are_text_everywhere(open_page, engine):
    scene = engine.scene()
    engine.__dict__["_scene"] = {**scene, "title": HOSTILE}
    try:
        saved = open_page(state={"search": "img"})
    finally:
        engine.__dict__["_scene"] = scene
    expect(saved.page).to_have_title(HOSTILE)
    saved.root.focus()
    saved.page.keyboard.press("Enter")
    expect(saved.root.locator(".hta-details")).to_contain_text("<img src=x")
    saved.page.keyboard.press("o")
    saved.page.keyboard.press("Control+a")
    expect(saved.root).to_contain_text("<img src=x")
    assert saved.page.locator("img").count() == 0
    html = saved.path.read_text()
    assert html.count("<script") == html.count("</script>")
    assert HOSTILE not in html


def test_a_small_page_says_what_it_lacks(open_page, tmp_path, screenshot):
    folder = tmp_path / "long"
    folder.mkdir()
    engine = TileEngine(write_job(folder, steps=80, rng=random.Random(1)))
    full = open_page(engine)
    limit = (full.path.stat().st_size - _arguments(full.page)) * 0.9 / 1e6
    saved = open_page(engine, state={"selected_event": [1, 5]}, max_mb=limit)
    assert saved.path.stat().st_size <= limit * 1e6
    text = re.compile(r"Saved view\. Ranks? [\d, ]*1: all events, no arguments\. Others: overview")
    expect(saved.root).to_contain_text(text)
    expect(saved.root.locator(".hta-details")).to_contain_text("Arguments are not embedded")
    expect(saved.page.locator("footer summary")).to_contain_text("Others: overview only.")
    saved.root.focus()
    saved.page.keyboard.press("Escape")
    saved.page.keyboard.press("Escape")
    expect(saved.words).to_contain_text("Whole job")
    for _ in range(9):
        wheel(saved.stage, (400, 200), -800, keys=["Control"])
    # Details are solid and averages are pale; both differ from the hatching.
    wait_for_colors(saved.stage, "#1f77c0", _mixed("#868e99", "#ffffff", 0.32))
    screenshot(saved.page, "saved_page_partial")


def _arguments(page: Page) -> int:
    return page.evaluate(
        "[...document.querySelectorAll('[id^=hta-args-]')].map(e => e.textContent.length)"
        ".reduce((a, b) => a + b, 0)"
    )


def _mixed(top: str, ground: str, share: float) -> str:
    parts = [
        round(int(top[k : k + 2], 16) * share + int(ground[k : k + 2], 16) * (1 - share))
        for k in (1, 3, 5)
    ]
    return "#" + "".join(f"{part:02x}" for part in parts)


def test_dark_follows_the_system(open_page, page):
    page.emulate_media(color_scheme="dark")
    saved = open_page()
    wait_for_colors(saved.stage, "#3d8ff2", "#f5821f")
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 24, 31)")
    page.emulate_media(color_scheme="light")
    wait_for_colors(saved.stage, "#1f77c0", "#e0630f")


def test_a_damaged_page_says_so(open_page, page):
    saved = open_page()
    text = saved.path.read_text()
    start = text.index('id="hta-rank-1">') + len('id="hta-rank-1">')
    broken = base64.b64encode(b"nothing packed").decode()
    saved.path.write_text(text[:start] + broken + text[text.index("<", start) :])
    page.goto(saved.path.as_uri())
    expect(page.locator("body")).to_contain_text(
        'This page is damaged: block "rank-1" cannot be read'
    )


def test_without_scripts_or_an_unpacker_the_page_explains(new_context, engine, tmp_path):
    path = tmp_path / "saved.html"
    save_html(path, engine, engine.scene(), {})
    page = new_context(java_script_enabled=False).new_page()
    page.goto(path.as_uri())
    # Playwright does not see text in a noscript element.
    message = page.locator("noscript")
    assert "draws traces with JavaScript" in message.inner_html()
    assert message.bounding_box()["height"] > 10
    context = new_context()
    guard = Guard()
    guard.watch(context)
    context.add_init_script("delete globalThis.DecompressionStream")
    old = context.new_page()
    old.goto(path.as_uri())
    expect(old.get_by_role("alert")).to_contain_text("lacks DecompressionStream")
    assert guard.outside == guard.errors == []


def test_a_widget_saves_what_it_shows(page, traces, tmp_path):
    timeline = hw.Timeline(traces, height=400)
    timeline.view = (5_000_000, 9_000_000)
    timeline.color = "name"
    timeline.pinned = ["2"]
    path = tmp_path / "from-widget.html"
    assert timeline.save_html(path) == str(path)
    page.goto(path.as_uri())
    root = page.locator(".hta-root")
    expect(root.locator(".hta-words")).to_contain_text("5.00–9.00\u202fms")
    expect(root.locator("[role=row]").first).to_contain_text("rank 2")
    expect(root.locator(".hta-color")).to_have_attribute("aria-pressed", "true")


WAIT, LATE = "#fde3d0", "#c01538"
SLOW = 2


def collectives(folder, ranks=4, calls=6):
    """Write and load all-reduces at which one rank arrives 2 ms late."""

    def events(rank):
        yield complete("host", "cpu_op", 10, 100, 0, calls * STEP_US)
        late = 2000 if rank == SLOW else 0
        for call in range(calls):
            start = call * STEP_US
            at, end = start + 2000 + rank + late, start + 7000
            yield complete(f"ProfilerStep#{call}", "user_annotation", 10, 100, start, STEP_US)
            yield complete(GEMM, "kernel", 0, 7, start, 1500 + late, stream=7)
            yield collective(
                at * US, end * US, kernel_name=NCCL, ranks=tuple(range(ranks)), elements=1 << 20
            )

    return read(write(folder, *(list(events(rank)) for rank in range(ranks)), base_ns=EPOCH_NS))


def test_a_page_says_who_waits_for_whom(open_page, tmp_path, screenshot):
    folder = tmp_path / "late"
    folder.mkdir()
    saved = open_page(TileEngine(collectives(folder)))
    expect(saved.words).to_contain_text("3 ranks wait")
    expect(saved.words).to_contain_text(f"for rank {SLOW}: ")
    wait_for_colors(saved.stage, WAIT, LATE, "#e0630f")
    expect(saved.root.locator(".hta-key-only").first).to_contain_text("waiting")
    screenshot(saved.page, "saved_page_waits")
    click(saved.stage, (saved.x(5_500_000), saved.nccl(0)))
    panel = saved.root.locator(".hta-collective")
    expect(panel).to_contain_text("allreduce on 4 ranks")
    expect(panel).to_contain_text("3 ranks waited 2.00")
    expect(saved.words).to_contain_text(f"waiting for rank {SLOW}.")
    screenshot(saved.page, "saved_page_collective")


def test_a_page_says_who_comes_last(open_page, tmp_path):
    folder = tmp_path / "late"
    folder.mkdir()
    saved = open_page(TileEngine(collectives(folder)))
    expect(saved.words).to_contain_text(f"for rank {SLOW}: ")
    # The second collective, 12 ms after the start; its last rank arrives 2 ms later.
    x = saved.x(14_000_000 + SLOW * 1000)
    tip = saved.root.locator(".hta-tooltip")
    wait_for_colors(saved.stage, LATE)
    for at in (x - 3, x):
        saved.stage.hover(position={"x": at, "y": LAST_RANKS})
    expect(tip).to_contain_text(f"rank {SLOW} comes last")
    # Marks below communication show how much later a rank arrived than the median rank.
    for at in (x - 3, x):
        saved.stage.hover(position={"x": at, "y": saved.nccl(SLOW) + 8 + 1 + 2})
    expect(tip).to_contain_text("2.00\u202fms")
    click(saved.stage, (x, LAST_RANKS))
    expect(saved.root.locator(".hta-collective")).to_contain_text("allreduce on 4 ranks")
    expect(saved.root.locator(".hta-details")).to_contain_text(f"rank {SLOW}")


def test_a_page_folds_like_ranks(open_page, tmp_path, screenshot):
    folder = tmp_path / "late"
    folder.mkdir()
    saved = open_page(TileEngine(collectives(folder)))
    rows = saved.root.locator("[role=rowheader]")
    expect(saved.root.locator(".hta-fold")).to_be_visible()
    expect(rows).to_have_count(4)
    saved.root.focus()
    saved.page.keyboard.press("u")
    expect(rows).to_have_text(["ranks 0, 1, 3, folded into rank 0, closed", "rank 2, closed"])
    expect(saved.words).to_contain_text("2 of 4 ranks shown; similar ranks are folded.")
    screenshot(saved.page, "saved_page_folded")
    saved.page.keyboard.press("u")
    expect(rows).to_have_count(4)


def test_a_page_of_two_ranks_does_not_offer_to_fold(open_page, tmp_path):
    folder = tmp_path / "two"
    folder.mkdir()
    saved = open_page(TileEngine(write_job(folder, ranks=2)))
    expect(saved.words).to_contain_text("idle")
    expect(saved.root.locator(".hta-fold")).to_be_hidden()


def test_a_page_shrinks_lanes_that_are_empty_in_view(open_page):
    # At this time only a collective runs, on its own stream, and the step on the host.
    saved = open_page(view=[8_300_000, 9_400_000])
    expect(saved.root.locator("[role=rowheader]")).to_have_count(3)
    height = saved.stage.bounding_box()["height"]
    click(saved.stage, (60, HEAD + 20))
    wait_until(
        saved.page, lambda: saved.stage.bounding_box()["height"] > height, "the rows are open"
    )
    # All rows fit, so smaller rows would leave the end of the page blank.
    expect(saved.words).not_to_contain_text("reduced height")
    saved.root.get_by_role("separator", name="Height of the rows").press("Home")
    expect(saved.words).to_contain_text("3 empty lanes at reduced height (E)")
    saved.root.focus()
    saved.page.keyboard.press("e")
    expect(saved.words).not_to_contain_text("reduced height")


def test_the_pointer_on_a_kernel_draws_its_launch(open_page):
    saved = open_page(view=[0, 2_000_000])
    expect(saved.root.locator("[role=rowheader]")).to_have_count(3)
    saved.stage.hover(position={"x": saved.x(190_000), "y": saved.gpu(0)})
    message = saved.root.locator(".hta-tooltip")
    expect(message).to_contain_text("launched by cudaLaunchKernel, 30.0\u202fµs before")
