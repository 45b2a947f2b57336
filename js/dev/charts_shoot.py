"""Draw the dashboard's charts to look at them: ``python js/dev/charts_shoot.py OUT [widths…]``."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO), str(REPO / "tests")]

from support.browser import CHROMIUM, FLAGS  # noqa: E402
from support.panel_frames import job_frames, made_frames  # noqa: E402

from hta_widgets.charts.panels import CHART_PANELS, panel_items  # noqa: E402
from hta_widgets.widgets.view import bokeh_module  # noqa: E402


def page_of(folder: Path) -> Path:
    """Write the page; its frames come from outside."""
    bundle = folder / "harness.js"
    subprocess.run(["node", "js/dev/charts_bundle.mjs", str(bundle)], cwd=REPO, check=True)
    library = bokeh_module().replace("export default ", "window.asset = ")
    items = json.dumps({panel: panel_items(panel) for panel in CHART_PANELS})
    page = folder / "charts.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8">'
        f'<script type="module">{library};'
        "window.harness = {Bokeh: window.asset.initialize().Bokeh,"
        f" items: {items.replace('</', '<' + chr(92) + '/')}, frames: {{}}}};</script>"
        f'<script type="module">{bundle.read_text("utf-8")}</script>',
        "utf-8",
    )
    return page


def main(out: str, *widths: str) -> None:
    """Write a picture of each job, width and theme."""
    target = Path(out)
    target.mkdir(parents=True, exist_ok=True)
    jobs = {"ddp": job_frames(), **{f"made{n}": made_frames(n) for n in (1, 64, 256)}}
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as browsers:
        page_path = page_of(Path(folder))
        browser = browsers.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        for width in map(int, widths or ("300", "400", "700", "1000")):
            for theme in ("light", "dark"):
                page = browser.new_page(viewport={"width": width + 24, "height": 800})
                page.on("pageerror", lambda error: print("error:", error))
                page.on("console", lambda entry: "document idle" in entry.text or print(entry.text))
                page.goto(page_path.as_uri())
                for job, frames in jobs.items():
                    if theme == "dark" and job != "ddp":
                        continue
                    page.evaluate("frames => { harness.frames = frames }", frames)
                    page.evaluate(
                        "([width, theme]) => harness.mount(width, theme, {})", [width, theme]
                    )
                    page.wait_for_timeout(250)
                    path = target / f"{job}_{width}_{theme}.png"
                    page.screenshot(path=str(path), full_page=True)
                page.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
