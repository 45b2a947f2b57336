"""Notebooks that are saved and reopened."""

from playwright.sync_api import expect
from support.browser import wait_until

CELL = """
import hta_widgets as hw
from hta_widgets.readers import progress
progress._BAR_DELAY_S = 0
hw.Dashboard({folder!r})
"""
ERROR = "Error displaying widget"


def reopen(page):
    page.evaluate("jupyterapp.commands.execute('docmanager:save')")
    url = page.evaluate("location.href.split('?')[0]")
    page.goto(f"{url}?reset")


def test_a_reload_shows_the_view_alone_and_pictures_without_a_kernel(
    notebook, lab, folder, screenshot
):
    page = notebook(CELL.format(folder=str(folder)))
    expect(page.locator(".hta-dash")).to_be_visible(timeout=60_000)
    reopen(page)
    expect(page.locator(".hta-dash")).to_be_visible(timeout=60_000)
    expect(page.locator(".jp-Notebook .hta-dash")).to_have_count(1)
    outputs = page.locator(".jp-OutputArea-output")
    high = "nodes => nodes.filter(node => node.offsetHeight > 5).length"
    wait_until(page, lambda: outputs.evaluate_all(high) == 1, "only the view has a height")
    expect(page.locator(".jp-Notebook")).not_to_contain_text(ERROR)

    lab.end_sessions()
    reopen(page)
    picture = page.locator(".jp-Notebook .hta-fallback img")
    expect(picture).to_be_visible(timeout=60_000)
    assert picture.evaluate("async node => (await node.decode(), node.naturalWidth)") == 900
    expect(page.locator(".jp-Notebook")).not_to_contain_text(ERROR)
    screenshot(page, "notebook_without_kernel")
