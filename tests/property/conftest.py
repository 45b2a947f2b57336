"""Fixtures for tests against other implementations."""

import itertools

import pytest
from support.page_engine import NO_STATE, PageEngine

from hta_widgets.export.pages.page import save_html


@pytest.fixture(scope="session")
def bundle(tmp_path_factory, repo):
    if not (repo / "node_modules" / "esbuild").is_dir():
        pytest.skip("the front end's packages are not installed (`make setup` does it)")
    return tmp_path_factory.mktemp("page-engine") / "engine.mjs"


def saving(tmp_path_factory, node, bundle, built):
    """`saved(engine, **options)` saves a page and returns the engine of that page."""
    folder, numbers, opened = tmp_path_factory.mktemp("pages"), itertools.count(), []

    def save(engine, state=NO_STATE, **options):
        path = folder / f"page-{next(numbers)}.html"
        assert save_html(path, engine, engine.scene(), state, **options) == str(path)
        opened.append(PageEngine(node, path, bundle))
        return opened[-1]

    yield save
    for opened_page in opened:
        opened_page.close()


saved = pytest.fixture(saving)
saved_for_all = pytest.fixture(saving, scope="module")
