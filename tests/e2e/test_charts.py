"""Charts in a browser: they fit any width, and names of a trace are never markup."""

import io
import re

import pytest
from PIL import Image
from support import chart_frames as frames

from hta_widgets import charts

# Whatever is drawn beyond its canvas is cut off.
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
    page.wait_for_timeout(150)


@pytest.mark.parametrize("width", [360, 800, 1800])
def test_words_and_numbers_stay_inside_at_any_width(page, tmp_path, width):
    page.set_viewport_size({"width": width, "height": 600})
    for name, (draw, make) in frames.ALL.items():
        shown(page, draw(make()), tmp_path / f"{name}.html")
        reach = page.evaluate(REACH)
        assert reach
        beyond = [part for part in reach if part[1] < -0.5 or part[2] > part[3] + 0.5]
        assert beyond == [], (name, width)
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
    for down in range(90, 170, 4):
        page.mouse.move(500, down, steps=2)
        page.wait_for_timeout(60)
        if tooltip.count():
            break
    text = tooltip.first.inner_text()
    assert frames.HOSTILE in re.sub(r"\s+", " ", text)
    assert page.locator("img").count() == 0, "Playwright looks into shadow roots, too"


def test_a_thousand_ranks_are_drawn_a_pixel_each_in_their_true_colours(page, tmp_path):
    page.set_viewport_size({"width": 700, "height": 1300})
    frame = frames.temporal(range(1024))
    frame.loc[512, ["idle_ns", "compute_ns"]] = [0, 700_000_000]
    shown(page, charts.temporal_breakdown(frame), tmp_path / "many.html")
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    compute = tuple(bytes.fromhex(charts.LIGHT.kind["compute"][1:]))
    column = [picture.getpixel((200, down)) for down in range(picture.height)]
    assert column.count(compute) == 1024
    # Between half of the scale, where the others end, and where this rank ends.
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
    colour = tuple(bytes.fromhex(charts.LIGHT.kind["communication"][1:]))
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    solid = [down for down in range(60, 200) if picture.getpixel((100, down)) == colour]
    page.mouse.click(100, solid[-2])
    assert page.evaluate(selected) == [1]
    page.mouse.move(300, solid[0] - 2)
    page.mouse.down()
    page.mouse.move(330, solid[-1] + 2, steps=5)
    page.mouse.up()
    page.wait_for_function(f"({selected})().length === 2")
