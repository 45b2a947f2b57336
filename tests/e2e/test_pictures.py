"""Texts of the pictures in the README and docs, compared with the pages they show."""

import importlib.util
import json

import pytest
from playwright.sync_api import Browser

import hta_widgets as hw
from hta_widgets.demo.job import write_demo


@pytest.fixture(scope="module")
def pictures(repo):
    spec = importlib.util.spec_from_file_location("pictures", repo / "scripts/pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_timelines_say_what_their_pictures_say(pictures, browser: Browser, repo, tmp_path):
    """`make screenshots` updates them; `tests/unit/test_docs_run.py` compares all others."""
    texts = json.loads((repo / "docs/img/texts.json").read_text("utf-8"))
    write_demo(tmp_path / "demo-job", ranks=8, steps=5, seed=0)
    job = hw.load(tmp_path / "demo-job", cache=False, progress=False)
    for name, view in (("timeline", hw.Timeline(job)), ("collective", pictures.collective(job))):
        page = browser.new_page(viewport={"width": 1240, "height": 800}, reduced_motion="reduce")
        page.goto(f"file://{view.save_html(tmp_path / 'page.html')}")
        assert pictures.words_on(page) == texts[name]
        page.close()
