"""Saved pages checked with axe-core: no findings in either theme, with menus and details open."""

import pytest
from playwright.sync_api import expect
from support.dashboard import Dash

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job

_RULES = """async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  return violations.map(({ id, impact, nodes }) => [id, impact, nodes[0].html.slice(0, 200)]);
}"""


@pytest.fixture
def findings(page, repo):
    """`findings()` returns axe-core's findings on the page in both themes."""
    script = repo / "node_modules/axe-core/axe.min.js"
    if not script.exists():
        pytest.skip("axe-core is not installed (`make setup` does it)")
    # Scripts on the page need its nonce; scripts evaluated by a debugger do not.
    code = script.read_text("utf-8")

    def judge():
        if page.evaluate("typeof axe") == "undefined":
            page.evaluate(f"() => {{ {code} }}")
        result = {}
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            expect(page.locator("[data-theme]").first).to_have_attribute("data-theme", theme)
            # Panels that wait for new numbers are dimmed.
            expect(page.locator(".hta-stale")).to_have_count(0, timeout=30_000)
            result[theme] = page.evaluate(_RULES)
        return [(theme, item) for theme, items in result.items() for item in items]

    return judge


def test_a_dashboard(page, job, report, findings):
    page.goto(report.as_uri())
    dash = Dash(page, job)
    for panel in ("breakdown", "kernels", "queue"):
        dash.ready(panel)
    assert findings() == []
    dash.root.get_by_role("button", name="Longest gap", exact=True).click()
    expect(dash.root.locator(".hta-dock")).to_contain_text("idle")
    assert findings() == []
    page.keyboard.press("/")
    page.keyboard.type("gemm")
    page.keyboard.press("Enter")
    expect(dash.root.locator(".hta-arglist")).to_contain_text("correlation")
    assert findings() == []
    dash.root.get_by_role("button", name="Choose which panels are shown").click()
    expect(page.get_by_role("checkbox").first).to_be_visible()
    unchecked = page.get_by_role("checkbox", checked=False)
    unchecked.evaluate_all("boxes => boxes.forEach(box => box.click())")
    assert findings() == []


def test_other_views(page, job, tmp_path, built, findings):
    write_byteps_job(tmp_path / "byteps", workers=2, local_ranks=2, servers=2, steps=4)
    write_mpi_job(tmp_path / "mpi", ranks=8, hosts=2)
    views = {
        ".hta-said": hw.Timeline(job),
        # The two sides have different numbers of ranks, so the comparison shows warnings.
        ".hta-diff-tile": hw.TraceDiff(job.select(ranks=[0, 5]), job.select(ranks=[0])),
        "[data-panel=byteps_blame] canvas": hw.Dashboard(tmp_path / "byteps"),
        "[data-panel=mpi_ranks] canvas": hw.Dashboard(tmp_path / "mpi"),
    }
    for drawn, view in views.items():
        page.goto(f"file://{view.save_html(tmp_path / 'view.html')}")
        expect(page.locator(drawn).first).to_be_visible(timeout=60_000)
        assert findings() == [], drawn


_BACKGROUNDS = """els => els.map(el => getComputedStyle(el).backgroundColor)"""


def test_forced_colors_keep_the_colors_of_data_and_show_what_is_chosen(page, job, tmp_path, built):
    diff = hw.TraceDiff(job.select(ranks=[0]), job.select(ranks=[5]))
    page.goto(f"file://{diff.save_html(tmp_path / 'diff.html')}")
    expect(page.locator(".hta-diff-tile").first).to_be_visible(timeout=60_000)
    data = page.locator(".hta-diff-legend i, .hta-diff-stack i, .hta-diff-fall, .hta-diff-tile")
    colors = data.evaluate_all(_BACKGROUNDS)
    assert len(set(colors)) > 3
    page.emulate_media(forced_colors="active")
    assert data.evaluate_all(_BACKGROUNDS) == colors
    for choice in page.locator(".hta-diff-choice").all():
        if choice.is_visible():
            buttons = choice.get_by_role("button")
            chosen = buttons.evaluate_all("els => els.map(el => el.ariaPressed === 'true')")
            shades = set(zip(chosen, buttons.evaluate_all(_BACKGROUNDS), strict=True))
            assert len(shades) == len({shade for _, shade in shades}) == 2
