"""Notebook outputs look like saved pages, even next to JupyterLab's extension and other views."""

import operator

from playwright.sync_api import expect
from support.browser import wait_until

import hta_widgets as hw

#: Styles follow the order of views: a timeline's rules must not override those of earlier views.
CELLS = """
import hta_widgets as hw
traces = hw.load({folder!r}, progress=False, cache=False)
few = traces.select(ranks=[0, 5])
hw.TraceDiff(few, few)
""", "hw.Dashboard(traces)", "hw.Timeline(traces)"  # fmt: skip
#: Colors of the first element of each kind (its tag, classes, states and parent classes).
STYLES = """root => {
  const properties = ["color", "backgroundColor", "backgroundImage", "borderTopColor",
    "borderTopStyle", "borderTopWidth", "fontWeight", "fontSize"];
  const states = ["data-kind", "aria-pressed", "aria-disabled"];
  const kindOf = node => [node.localName, ...[...node.classList].sort(),
    ...states.map(name => node.getAttribute(name))].join(" ");
  const styles = {};
  for (const node of root.querySelectorAll("[class*=hta-]")) {
    const kind = `${kindOf(node.parentElement)} > ${kindOf(node)}`;
    const style = getComputedStyle(node);
    styles[kind] ??= Object.fromEntries(properties.map(name => [name, style[name]]));
  }
  return styles;
}"""


def test_outputs_have_the_colors_of_a_saved_page(
    notebook, folder, job, new_context, tmp_path, theme
):
    page = notebook(*(cell.format(folder=str(folder)) for cell in CELLS))
    hw.Dashboard(job).save_html(tmp_path / "saved.html")
    saved = new_context().new_page()
    # At this width, the page has a single column, as in a notebook.
    saved.set_viewport_size({"width": 1090, "height": 900})
    roots = [opened.locator(".hta-dash").first for opened in (page, saved)]
    for name in ("dark", "light"):
        theme(name)
        saved.emulate_media(color_scheme=name)
        saved.goto((tmp_path / "saved.html").as_uri())
        for root in roots:
            expect(root).to_have_attribute("data-theme", name, timeout=60_000)
            expect(root.locator(".hta-rank-link").first).to_be_visible(timeout=60_000)
        for view in (".hta-diff", ".jp-CodeCell:nth-of-type(3) .hta-stage-frame"):
            expect(page.locator(view).first).to_be_visible(timeout=60_000)

        def styles():
            in_lab, in_page = (root.evaluate(STYLES) for root in roots)
            kinds = in_lab.keys() & in_page.keys()
            return [{kind: shown[kind] for kind in kinds} for shown in (in_lab, in_page)]

        # Panels on either page may still be waiting for numbers.
        wait_until(page, lambda: operator.eq(*styles()), "the same styles in both")
        kinds, _ = styles()
        assert len(kinds) > 40
        assert any("hta-rank-link" in kind for kind in kinds)
        assert any("hta-swatch" in kind for kind in kinds)
