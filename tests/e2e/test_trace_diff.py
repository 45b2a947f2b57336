"""Two runs side by side in JupyterLab and in a saved page: zoom, partners, alignment, swap."""

import re

import pytest
from playwright.sync_api import expect
from support.browser import hover, wait_for_frames, wait_until, wheel

import hta_widgets as hw
from hta_widgets import cli, diff
from hta_widgets.demo.job import write_demo


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    work = tmp_path_factory.mktemp("runs")
    before, after = work / "before", work / "after"
    shape = {"ranks": 2, "steps": 4, "straggler": None, "events_per_step": 1600}
    write_demo(before, seed=0, **shape)
    write_demo(after, seed=1, **shape, changes=["slow_operator", "extra_copy"])
    return before, after


@pytest.fixture(scope="module")
def sides(folders):
    return [hw.load(folder, progress=False, cache=False) for folder in folders]


#: The part of a status line that describes the view: a step, two times, or the whole job.
_VIEW = re.compile(r"\S+ in view|[\d.]+(?:\s\w+)?–[\d.]+\s\w+ \(|[Ww]hole job")


SLOWER, SAME, COMPUTE = ("d666a8", "c2277f", "80074f"), "b9c1cc", "1f77c0"

#: Returns the center of the widest mark with one of the colors in each lane, in px from the top.
_WIDEST_EVENTS = """(canvas, colors) => {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const scale = canvas.getBoundingClientRect().width / width;
  const hex = at => [0, 1, 2].map(k => data[at + k].toString(16).padStart(2, "0")).join("");
  const places = [];
  for (let y = 80; y < height; y += 7) {
    let widest = [0, 0];
    for (let x = 170, start = x; x < width; x += 1) {
      if (colors.includes(hex(4 * (y * width + x)))) continue;
      if (x - start > widest[0]) widest = [x - start, (start + x) / 2];
      start = x + 1;
    }
    if (widest[0] > 2) places.push([widest[1] * scale, y * scale]);
  }
  return places;
}"""


class Seen:
    """A comparison as the user sees it."""

    def __init__(self, page):
        self.page = page
        self.root = page.locator(".hta-diff").first
        expect(self.root.locator(".hta-diff-tile").first).to_be_visible(timeout=60_000)

    @property
    def headline(self):
        return self.root.locator(".hta-headline")

    def axis(self, side):
        """Return the start and length of a timeline's view, as shown in its status line."""
        return self.root.locator(".hta-diff-side .hta-said").nth(side).inner_text()

    def window(self, side):
        """Return the times of the view, without the text about the selection."""
        return _VIEW.search(self.axis(side))[0]

    def lane(self, side):
        return self.root.locator(".hta-stage").nth(side)

    def point(self, side, name):
        """Hover over the widest event of each lane until the status line names a pair."""
        stage = self.lane(side)
        stage.scroll_into_view_if_needed()
        message = self.root.locator(".hta-diff-pair")
        for place in stage.locator("canvas").first.evaluate(_WIDEST_EVENTS, [SAME, *SLOWER]):
            no_pair = message.inner_text()
            hover(stage, place)
            try:
                expect(message).not_to_have_text(no_pair, timeout=2_000)
            except AssertionError:
                continue
            text = message.inner_text()
            if re.search(name, text):
                return text
        raise AssertionError(f"no {name} on side {side}")


def tells_what_changed(seen):
    expect(seen.headline).to_contain_text("aten::gelu is slower on the device and host")
    expect(seen.headline).to_contain_text("aten::contiguous is new")
    row = seen.root.locator(".hta-diff-names .hta-name-row", has_text="new 1")
    expect(row.first).to_contain_text("Memcpy DtoD")


def moves_together(seen):
    """Zoom in on the upper timeline; the lower one follows with a window of the same length."""
    full = seen.axis(1)
    seen.lane(1).scroll_into_view_if_needed()
    for _ in range(4):
        wheel(seen.lane(0), (420, 120), -600, keys=["Control"])
        wait_for_frames(seen.page)
    expect(seen.root.locator(".hta-diff-side .hta-said").nth(1)).not_to_have_text(full)

    def are_as_long():
        # If the window is a step, the text contains its name: "ProfilerStep#1 in view, 26.6 ms".
        texts = [seen.axis(side) for side in (0, 1)]
        lengths = [re.findall(r"(?:\(|in view, )([\d.]+.[mµ]s)", text)[:1] for text in texts]
        return bool(lengths[0]) and lengths[0] == lengths[1]

    # The second timeline follows one or more frames later.
    wait_until(seen.page, are_as_long, "both timelines show as much time")


def names_the_partner(seen):
    # Partners are only known once all calls are matched.
    expect(seen.root.locator(".hta-diff-keys")).not_to_contain_text("matching calls")
    text = seen.point(0, r"→")
    assert re.search(r"[\d.]+.(ns|µs|ms) → [\d.]+.(ns|µs|ms) [+−±]", text), text


def goes_back_from_what_is_chosen(seen):
    """Select a step, then a name; each is one entry of the history, for both sides and all sums."""
    undo, redo = (seen.root.get_by_role("button", name=way).first for way in ("Undo", "Redo"))
    sums = seen.root.locator(".hta-diff-waterfall h3")
    message = seen.root.locator(".hta-diff-side .hta-said")
    full = [seen.window(side) for side in (0, 1)]
    seen.root.locator(".hta-diff-slot").nth(1).click()
    expect(sums).to_contain_text("in Step #")
    for side in (0, 1):
        expect(message.nth(side)).not_to_contain_text(full[side])
    of_step = [seen.window(side) for side in (0, 1)]
    marked = seen.root.locator(".hta-diff-names .hta-name-row.hta-on")
    seen.root.locator(".hta-diff-names .hta-name-button").first.click()
    expect(marked).to_have_count(1)
    undo.click()
    expect(marked).to_have_count(0)
    expect(sums).to_contain_text("in Step #")
    undo.click()
    expect(sums).not_to_contain_text("in Step #")
    for side in (0, 1):
        expect(message.nth(side)).to_contain_text(full[side])
    redo.click()
    expect(sums).to_contain_text("in Step #")
    for side in (0, 1):
        expect(message.nth(side)).to_contain_text(of_step[side])
    undo.click()
    expect(message.nth(1)).to_contain_text(full[1])


def inks(seen, side):
    """Return the colors of a timeline's lanes with their numbers of pixels."""
    return (
        seen.lane(side)
        .locator("canvas")
        .first.evaluate(
            """canvas => {
          const { width, height } = canvas;
          const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
          const found = {};
          for (let at = 0; at < data.length; at += 4) {
            const hex = [0, 1, 2].map(k => data[at + k].toString(16).padStart(2, "0")).join("");
            found[hex] = (found[hex] ?? 0) + 1;
          }
          return found;
        }"""
        )
    )


def colors_say_what_became_of_events(seen):
    """Slower calls have the color in the legend; all others have the color of their kind."""
    legend = seen.root.locator(".hta-diff-keys")
    expect(legend).to_contain_text("slower")
    expect(legend).to_contain_text("only here")
    for side in (0, 1):
        wait_until(
            seen.page, lambda side=side: inks(seen, side).get(SAME, 0) > 500, "calls of equal time"
        )
    # The slower operator launches kernels that take twice as long.
    seen.root.locator(".hta-diff-changes .hta-name-row", has_text="aten::gelu").click()
    expect(seen.root.locator(".hta-diff-status")).to_contain_text("Marked: aten::gelu, ")

    def windows():
        return [seen.window(side) for side in (0, 1)]

    def are_slower_ones_drawn(side):
        return sum(inks(seen, side).get(ink, 0) for ink in SLOWER) > 20

    before = seen.window(0)
    seen.page.keyboard.press("Escape")
    seen.lane(0).focus()
    seen.root.locator(".hta-part").first.press("z")
    # Both timelines show the whole run. One undo reverts both, whichever has the focus.
    wait_until(seen.page, lambda: seen.window(0) != before, "the whole is in view")
    for side in (0, 1):
        wait_until(seen.page, lambda side=side: are_slower_ones_drawn(side), "slower calls")
    full = windows()
    seen.root.locator(".hta-part").nth(1).press("Control+z")
    wait_until(seen.page, lambda: seen.window(0) == before, "undone")
    seen.root.get_by_role("button", name="Redo").first.click()
    wait_until(seen.page, lambda: seen.window(0) != before and windows() == full, "done again")
    # A picture has the same colors and the legend.
    seen.root.get_by_role("button", name="Export…").first.click()
    seen.root.get_by_role("button", name="Window of after…").click()
    with seen.page.expect_download() as download:
        seen.root.get_by_role("button", name="SVG of this view").click()
    picture = download.value.path().read_text("utf-8")
    assert ">slower<" in picture
    assert any(ink in picture for ink in SLOWER)
    seen.page.keyboard.press("Escape")
    seen.root.locator("[data-color=kind]").click()
    expect(legend).not_to_contain_text("slower")
    wait_until(seen.page, lambda: inks(seen, 1).get(COMPUTE, 0) > 500, "colours of kinds")
    assert not set(SLOWER) & set(inks(seen, 1))
    seen.root.locator("[data-color=change]").click()


def lies_rank_by_rank(seen):
    """Linked timelines share one area, with partners below each other; unlinked ones do not."""
    stages = seen.root.locator(".hta-stage")

    def boxes():
        return [stages.nth(side).bounding_box() for side in (0, 1)]

    def lie_apart():
        upper, lower = sorted(boxes(), key=lambda box: box["y"])
        return upper["y"] + upper["height"] <= lower["y"]

    wait_until(seen.page, lambda: boxes()[0] == boxes()[1], "both share their place")
    # Of the timeline in front, only the rows are visible, as stripes below the header.
    clips = [stages.nth(side).evaluate("stage => stage.style.clipPath") for side in (0, 1)]
    stripes = re.findall(r"M ?0 ([\d.]+)", "".join(clips))
    assert "" in clips
    assert len(stripes) >= 2
    assert float(stripes[0]) > 100
    link = seen.root.locator(".hta-diff-link")
    link.click()
    expect(link).to_have_attribute("aria-pressed", "false")
    wait_until(seen.page, lie_apart, "one lies below the other")
    link.click()
    expect(link).to_have_attribute("aria-pressed", "true")


#: Order of the panels, from top to bottom and left to right, by window width.
ORDERS = {
    700: "changes timelines strip waterfall names icicle",
    1100: "changes strip timelines names waterfall icicle",
    1800: "strip timelines icicle changes waterfall names",
}


_PANEL_NAMES = "els => els.map(el => el.className.match(/diff-(?!pane)(\\w+)/)[1])"


def nothing_is_cut_off(seen):
    """The toolbar shows the full names of both runs; Tab moves from panel to panel."""
    page = seen.page
    size = page.viewport_size
    for width in (700, 1100, 1800):
        page.set_viewport_size({"width": width, "height": size["height"]})
        panels = seen.root.locator(".hta-diff-body section:not(.hta-dock), .hta-diff-timelines")
        # The layout follows the width one frame later.
        wait_until(
            page,
            lambda panels=panels, width=width: (
                panels.evaluate_all(_PANEL_NAMES) == ORDERS[width].split()
            ),
            f"panels in the order of a page of {width} px",
        )
        cut = seen.root.locator(".hta-dash-toolbar").evaluate(
            """bar => [bar, ...bar.querySelectorAll(".hta-title, .hta-badge, button")]
              .filter(el => el.offsetParent !== null && el.scrollWidth > el.clientWidth + 1)
              .map(el => el.textContent)"""
        )
        assert cut == [], width
    page.set_viewport_size(size)


def can_be_read_on_a_phone(seen):
    """At 400 px, names do not overlap figures, and status lines have room for their text."""
    size = seen.page.viewport_size
    seen.page.set_viewport_size({"width": 400, "height": 800})
    waterfall = seen.root.locator(".hta-diff-waterfall")
    expect(waterfall).to_contain_text("exposed communication")
    overlaps = """rows => rows.flatMap(row => {
      const [name, value] = [row.children[0], row.children[1]];
      const end = document.createRange();
      end.selectNodeContents(name);
      const overlap = end.getBoundingClientRect().right - value.getBoundingClientRect().left;
      return overlap > 0 && name.tagName === "BUTTON" ? [name.textContent] : [];
    })"""
    assert waterfall.locator(".hta-diff-bar").evaluate_all(overlaps) == []
    name = seen.root.locator(".hta-diff-names .hta-name-button").first
    assert name.bounding_box()["width"] > 80
    for status in seen.root.locator(".hta-diff-side-status .hta-words").all():
        assert status.bounding_box()["width"] > 250
    # Text that applies to both sides is shown only once.
    expect(seen.root.locator(".hta-diff-side-status .hta-kernel:visible")).to_have_count(1)
    seen.page.set_viewport_size(size)


def is_of_one_pair_of_ranks_when_asked(seen, both):
    ranks = seen.root.get_by_role("combobox", name="Ranks")
    assert len(both.rank_pairs) == 2
    ranks.select_option("rank 1")
    expect(seen.root.locator(".hta-diff-waterfall h3")).to_contain_text("on rank 1")
    expect(seen.root.locator(".hta-diff-held")).to_contain_text("needs a kernel")
    # Parts that exist only for all ranks together show a note instead.
    expect(seen.headline).to_contain_text("of all ranks")
    for part in ("changes", "icicle"):
        expect(seen.root.locator(f".hta-diff-{part} h3")).to_contain_text("of all ranks")
    for side in (0, 1):
        expect(seen.root.locator(".hta-diff-side").nth(side)).to_contain_text("1 of 2 ranks")
    ranks.select_option("")
    expect(seen.root.locator(".hta-diff-held")).to_have_count(0)
    expect(seen.headline).not_to_contain_text("of all ranks")


def test_a_saved_page_compares_without_kernel_or_network(
    context, sides, folders, tmp_path, screenshot, built, capsys
):
    path = tmp_path / "diff.html"
    assert cli.main(["diff", *map(str, folders), "-o", str(path)]) == 0
    assert "aten::gelu is slower" in capsys.readouterr().out
    context.set_offline(True)
    page = context.new_page()
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"file://{path}")
    seen = Seen(page)
    tells_what_changed(seen)
    goes_back_from_what_is_chosen(seen)
    both = diff.compare(*(side.select() for side in sides))
    steps = diff.steps(both)
    expect(seen.root.locator(".hta-diff-slot")).to_have_count(len(steps))
    falls = seen.root.locator(".hta-diff-bar[data-depth='0']")
    expect(falls).to_have_count(len(diff.waterfall(both)))
    moves_together(seen)
    names_the_partner(seen)
    screenshot(page, "diff_saved")
    # A selection on one side shows details on both sides.
    page.mouse.down()
    page.mouse.up()
    expect(seen.root.locator(".hta-diff-side").get_by_text("Duration", exact=True)).to_have_count(2)
    colors_say_what_became_of_events(seen)

    seen.root.get_by_role("button", name="Swap").click()
    expect(seen.headline).to_contain_text("aten::contiguous is gone")
    removed = seen.root.locator(".hta-diff-names .hta-name-row", has_text="gone 1")
    expect(removed.first).to_be_visible()
    seen.root.locator(".hta-diff-slot").first.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(seen.root.locator(".hta-diff-waterfall h3")).to_contain_text("Step #1")
    is_of_one_pair_of_ranks_when_asked(seen, both)
    nothing_is_cut_off(seen)
    can_be_read_on_a_phone(seen)
    lies_rank_by_rank(seen)
    assert {url for url in requests if not url.startswith("blob:")} == {f"file://{path}"}


def test_a_page_of_many_steps_says_which_can_be_chosen(
    context, tmp_path, screenshot, built, monkeypatch
):
    sides = []
    for seed, word in enumerate(("before", "after")):
        write_demo(
            tmp_path / word, ranks=1, steps=14, seed=seed, straggler=None, events_per_step=700
        )
        sides.append(hw.load(tmp_path / word, progress=False, cache=False))
    view = hw.TraceDiff(*sides)
    page = context.new_page()
    for most, name in ((14, "all"), (3, "some")):
        monkeypatch.setattr("hta_widgets.export.pages.diff_page._MAX_STEPS", most)
        path = tmp_path / f"{name}.html"
        view.save_html(path)
        page.goto(f"file://{path}")
        seen = Seen(page)
        cells = seen.root.locator(".hta-diff-cell")
        expect(cells).to_have_count(14)
        barred = seen.root.locator(".hta-diff-cell[aria-disabled=true]")
        expect(barred).to_have_count(14 - most)
        cells.and_(page.locator(":not([aria-disabled])")).last.click()
        expect(seen.root.locator(".hta-diff-waterfall h3")).to_contain_text("in Step #")
        expect(seen.root.locator(".hta-diff-names .hta-about")).to_contain_text("over 1 step")
        expect(seen.root.get_by_text("does not hold")).to_have_count(0)
    expect(seen.root.locator(".hta-diff-held")).to_contain_text("3 of 14 steps can be chosen")
    title = seen.root.locator(".hta-diff-waterfall h3").inner_text()
    barred.first.click(force=True)
    wait_for_frames(page)
    assert seen.root.locator(".hta-diff-waterfall h3").inner_text() == title
    screenshot(page, "diff_some_steps")


def test_jupyterlab_couples_both_timelines_and_python(
    notebook, kernel, folders, page, screenshot, tmp_path
):
    before, after = map(str, folders)
    notebook(
        "import hta_widgets as hw, numpy as np",
        f"a, b = hw.load({before!r}, progress=False), hw.load({after!r}, progress=False)",
        "view = hw.TraceDiff(a, b); view",
    )
    seen = Seen(page)
    tells_what_changed(seen)
    moves_together(seen)
    # Each timeline sends its own view, so the kernel may receive one of them first.
    kernel.wait_for(
        "view.left.view != view.left.whole and"
        " abs(np.diff(view.left.view)[0] - np.diff(view.right.view)[0]) < 5"
    )

    # An alignment set in Python reaches the page; unlinked sides move independently.
    kernel("view.align = 'collectives'")
    expect(seen.root.locator("[data-base=collectives]")).to_have_attribute("aria-pressed", "true")
    seen.root.get_by_role("button", name="Linked").click()
    kernel.wait_for("view.coupled is False")
    right = seen.window(1)
    kernel("view.left.zoom_to(10_000_000, 12_000_000)")
    expect(seen.root.locator(".hta-diff-side .hta-said").first).to_contain_text(
        re.compile(r"10\.0+–12\.0+\s*ms")
    )
    wait_for_frames(page)
    assert seen.window(1) == right
    seen.root.get_by_role("button", name="Swap").click()
    kernel.wait_for("view.swapped")
    expect(seen.headline).to_contain_text("aten::contiguous is gone")
    screenshot(page, "diff_jupyterlab")
    out = tmp_path / "pair.json.gz"
    assert kernel.value(f"view.export({str(out)!r}).events > 1000")
    assert hw.load(out, progress=False, cache=False).ranks == [0, 1, 1000, 1001]

    # With one pair of ranks, all parts show that pair, and a change marks only its calls.
    kernel("view.pair = 1")
    expect(seen.headline).to_contain_text("on rank 1")
    for part in ("changes", "icicle"):
        expect(seen.root.locator(f".hta-diff-{part} h3")).to_contain_text("on rank 1")
    seen.root.locator(".hta-diff-changes .hta-name-row", has_text="aten::contiguous").click()
    expect(seen.root.locator(".hta-diff-status")).to_contain_text("Marked: aten::contiguous")
    kernel.wait_for(
        "{rank for rank, _ in view.right.selection.ids or view.left.selection.ids} == {1}"
    )
    kernel("view.pair = None")
    expect(seen.headline).not_to_contain_text("on rank 1")

    # The page keeps its data and reports that the kernel does not answer.
    expect(seen.root).to_have_attribute("data-page-data", "ready", timeout=60_000)
    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.shutdown()")
    seen.root.get_by_role("button", name="Swap").click()
    expect(seen.headline).to_contain_text("aten::contiguous is new")
    seen.root.locator(".hta-diff-slot").nth(1).click()
    expect(seen.root.locator(".hta-diff-waterfall h3")).to_contain_text("Step #1")
    expect(seen.root.get_by_text("Kernel gone · page data").first).to_be_visible()
    assert seen.point(0, r"→")
    screenshot(page, "diff_kernel_gone")
