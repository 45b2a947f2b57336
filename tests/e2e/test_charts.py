"""Charts in a browser: they fit any width, and names in a trace are never treated as markup."""

import io
import itertools
import re

import numpy as np
import pandas as pd
import pytest
from bokeh import layouts
from PIL import Image, ImageChops
from support import chart_frames as frames
from support.browser import wait_for_frames, wait_until
from support.examples import ALL

from hta_widgets import charts

# Anything drawn beyond the canvas would be cut off.
REACH = """() => {
  const reach = [];
  const pen = document.createElement("canvas").getContext("2d");
  const visit = (view) => {
    const model = view.model;
    if (model.type === "Figure") {
      const width = model.outer_width;
      for (const title of [model.title, ...model.above].filter((each) => each.type === "Title")) {
        const style = title.text_font_style === "bold" ? "bold " : "";
        pen.font = `${style}${title.text_font_size} ${title.text_font}`;
        for (const line of title.text.split("\\n")) {
          reach.push([`title ${line}`, 4, 4 + pen.measureText(line).width, width]);
        }
      }
      for (const side of ["left", "right"]) {
        let room = 0;
        for (const axis of model[side].filter((each) => each.visible)) {
          pen.font = `11px ${axis.major_label_text_font}`;
          const lines = [...axis.major_label_overrides.values()].join("\\n").split("\\n");
          room += Math.max(0, ...lines.map((line) => pen.measureText(line).width)) + 6;
        }
        const start = side === "left" ? model.min_border_left - room : width - room;
        const inner = width - model.inner_width - model.min_border_left;
        reach.push([side, side === "left" ? start : 0, side === "left" ? 0 : room, inner + 1]);
      }
      reach.push(["inner", 0, 60, model.inner_width]);
    }
    for (const child of view.child_views ?? []) visit(child);
  };
  for (const root of Bokeh.index) visit(root);
  return reach;
}"""


def shown(page, chart, path):
    charts.to_html(chart, path)
    page.goto(path.as_uri())
    page.wait_for_function("Bokeh.documents.length > 0 && Bokeh.documents[0].is_idle")
    wait_for_frames(page)


# Several charts per page, because each page loads the whole Bokeh script.
@pytest.mark.parametrize("first", range(0, len(frames.ALL), 12))
def test_words_and_numbers_stay_inside_at_any_width(page, tmp_path, first):
    drawn = [draw(make()) for draw, make in list(frames.ALL.values())[first : first + 12]]
    page.set_viewport_size({"width": 360, "height": 600})
    shown(page, charts.column(*drawn), tmp_path / "charts.html")
    for width in (360, 800, 1800) if ALL else (360, 1800):
        page.set_viewport_size({"width": width, "height": 600})
        # Charts fill the page except for its margins, and their texts follow.
        page.wait_for_function(
            "[...Bokeh.index][0].child_views.every("
            "({ bbox }) => Math.abs(bbox.width - innerWidth) < 40)"
            " && Bokeh.documents[0].is_idle"
        )

        def beyond():
            reach = page.evaluate(REACH)
            assert sum(part[0] == "inner" for part in reach) >= len(drawn)
            return [part for part in reach if part[1] < -0.5 or part[2] > part[3] + 0.5]

        wait_until(page, lambda: not beyond(), f"all texts fit a page of {width} px")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_chart_follows_the_width_of_its_page(page, tmp_path):
    page.set_viewport_size({"width": 1000, "height": 600})
    shown(page, charts.temporal_breakdown(frames.temporal()), tmp_path / "a.html")
    subtitle = "Bokeh.documents[0].roots()[0].above.find((each) => each.type === 'Title').text"
    assert page.evaluate(subtitle).count("\n") == 0
    page.set_viewport_size({"width": 360, "height": 600})
    page.wait_for_function(f"{subtitle}.includes('\\n')")


def test_names_are_text_wherever_they_stand(page, tmp_path):
    page.on("dialog", lambda dialog: pytest.fail(f"a name ran as a script: {dialog.message}"))
    page.set_viewport_size({"width": 900, "height": 600})
    figure = charts.kernel_breakdown(frames.kernels(name=frames.HOSTILE))
    shown(page, figure, tmp_path / "hostile.html")
    tooltip = page.locator(".bk-tooltip-content")
    downs = itertools.cycle(range(90, 170, 4))

    def is_pointed_at():
        page.mouse.move(500, next(downs), steps=2)
        wait_for_frames(page)
        return tooltip.count() > 0

    wait_until(page, is_pointed_at, "the tooltip of a bar")
    text = tooltip.first.inner_text()
    assert frames.HOSTILE in re.sub(r"\s+", " ", text)
    assert page.locator("img").count() == 0, "Playwright looks into shadow roots, too"


def test_a_thousand_ranks_are_drawn_a_pixel_each_in_their_true_colors(page, tmp_path):
    page.set_viewport_size({"width": 700, "height": 1300})
    frame = frames.temporal(range(1024))
    frame.loc[512, ["idle_ns", "compute_ns"]] = [0, 700_000_000]
    shown(page, charts.temporal_breakdown(frame), tmp_path / "many.html")
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    compute = tuple(bytes.fromhex(charts.LIGHT.kind["compute"][1:]))
    column = [picture.getpixel((200, down)) for down in range(picture.height)]
    assert column.count(compute) == 1024
    # A column beyond the middle of the scale, where all other bars end.
    beyond = [picture.getpixel((420, down)) for down in range(picture.height)]
    assert beyond.count(compute) == 1


def test_a_click_and_a_drag_select_rows_of_the_frame(page, tmp_path):
    page.set_viewport_size({"width": 700, "height": 500})
    shown(page, charts.comm_comp_overlap(frames.overlap()), tmp_path / "select.html")
    selected = """() => {
      const figure = Bokeh.documents[0].roots()[0];
      const { data_source } = figure.renderers.find((each) => "rank" in each.data_source.data);
      return Array.from(data_source.selected.indices);
    }"""
    color = tuple(bytes.fromhex(charts.LIGHT.kind["communication"][1:]))
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    solid = [down for down in range(60, 200) if picture.getpixel((100, down)) == color]
    page.mouse.click(100, solid[-2])
    page.wait_for_function(f"({selected})().length === 1")
    assert page.evaluate(selected) == [1]
    page.mouse.move(300, solid[0] - 2)
    page.mouse.down()
    page.mouse.move(330, solid[-1] + 2, steps=5)
    page.mouse.up()
    page.wait_for_function(f"({selected})().length === 2")


def pixels_of(page):
    return Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")


def test_words_are_drawn_as_they_were_fitted_in_columns_and_fixed_widths(page, tmp_path):
    # Neither the font nor the column has the width that charts assume.
    page.set_viewport_size({"width": 900, "height": 900})
    many = pd.concat([frames.launches()] * 785, ignore_index=True)
    for width in (None, 480):
        chart = layouts.column(charts.launch_stats(many, width=width), width=480)
        shown(page, chart, tmp_path / "narrow.html")
        first = pixels_of(page)
        page.evaluate("""() => {
          const visit = (view) => {
            for (const child of view.child_views ?? []) visit(child);
            if (view.model.type === "Figure") view.model.title.change.emit();
          };
          for (const root of Bokeh.index) visit(root);
        }""")
        wait_for_frames(page)
        assert ImageChops.difference(first, pixels_of(page)).getbbox() is None, width


def critical(count=2_000):
    """Return compute segments, 100 000 ns of host time in the middle, short sync segments."""
    starts = np.arange(count) * 10_000
    host = (starts >= 9_000_000) & (starts < 9_100_000)
    work = pd.DataFrame({"start_ns": starts, "dur_ns": 9_900, "bound_by": "gpu_compute_bound"})
    work.loc[host, "bound_by"] = "cpu_bound"
    waits = work.assign(start_ns=work["start_ns"] + 9_900, dur_ns=100, bound_by="sync_overhead")[
        ::50
    ]
    every = pd.concat([work, waits]).sort_values("start_ns", ignore_index=True)
    return every.assign(rank=0, id=1, name="k")


def test_each_pixel_of_the_critical_path_shows_what_takes_most_of_it(page, tmp_path):
    page.set_viewport_size({"width": 1000, "height": 400})
    shown(page, charts.critical_path(critical()), tmp_path / "path.html")
    picture = pixels_of(page)
    kind = {name: tuple(bytes.fromhex(each[1:])) for name, each in charts.LIGHT.kind.items()}
    middle = [picture.getpixel((400, y)) for y in range(picture.height)]
    path = middle.index(kind["compute"]) + 6
    line = [picture.getpixel((x, path)) for x in range(picture.width)]
    assert kind["sync"] not in line, "1 % of the time is most of no pixel"
    assert 3 <= line.count(kind["cpu"]) <= 5, "0.5 % of about 720 pixels"
    drawn = [x for x, each in enumerate(line) if each in (kind["compute"], kind["cpu"])]
    assert len(drawn) == drawn[-1] - drawn[0] + 1, "no seams"
    scale = len(drawn) / 20_000_000
    # Each cause has a row, in which short segments are one pixel wide.
    rows = [
        [x for x in range(picture.width) if picture.getpixel((x, path + 22 * row)) == kind["sync"]]
        for row in range(1, 4)
    ]
    marks = next(each for each in rows if each)
    assert len(marks) == 40
    assert min(np.diff(marks)) > 400_000 * scale, "none is wider"

    # A click marks one segment and leaves all others unchanged.
    page.mouse.click(drawn[100], path)
    page.mouse.move(5, 5)
    wait_for_frames(page)
    clicked = pixels_of(page)
    after = [clicked.getpixel((x, path)) for x in range(clicked.width)]
    assert sum(single != two for single, two in zip(line, after, strict=True)) <= 2

    # After zooming in, a single wait covers many pixels.
    page.evaluate("""() => {
      const { x_range } = Bokeh.documents[0].roots()[0];
      x_range.setv({ start: 9_000, end: 11_000 });
    }""")

    def share_of_waits():
        picture = pixels_of(page)
        line = [picture.getpixel((x, path)) for x in range(picture.width)]
        return line.count(kind["sync"]) / len(drawn)

    wait_until(page, lambda: 0.04 < share_of_waits() < 0.06, "a wait of 5 % of the pixels")


def test_names_that_differ_only_where_they_are_cut_are_numbered(page, tmp_path):
    page.set_viewport_size({"width": 400, "height": 400})
    names = [f"a_long_beginning_{middle}_{'x' * 40}_a_long_end" for middle in ("b", "c", "d")]
    frame = frames.kernels(names=3, ranks=(0,)).assign(name=names)
    shown(page, charts.kernel_breakdown(frame), tmp_path / "cut.html")
    labels = page.evaluate(
        "[...Bokeh.documents[0].roots()[0].left[0].major_label_overrides.values()]"
    )
    assert [text[-4:] for text in labels[2:]] == [" (2)", " (3)"]
