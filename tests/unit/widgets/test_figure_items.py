"""Charts that a page embeds are made once, and never served half or from another Bokeh."""

import pytest

from hta_widgets.readers import cache
from hta_widgets.widgets import dashboard as module


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path))
    module.figure_items.cache_clear()
    yield tmp_path / "charts"
    module.figure_items.cache_clear()


def again(panel):
    module.figure_items.cache_clear()
    return module.figure_items(panel)


def test_made_once_and_read_after(kept, monkeypatch):
    made = again("overlap")
    assert set(made) == {"light", "dark"}
    monkeypatch.setattr("hta_widgets.charts.panels.panel_items", pytest.fail)
    assert again("overlap") == made


@pytest.mark.parametrize("damage", [b"", b'{"light": ', b"[]", b"\xff"])
def test_what_is_damaged_is_made_anew(kept, damage):
    made = again("overlap")
    (file,) = kept.glob("*.json")
    file.write_bytes(damage)
    items = again("overlap")
    assert set(items) == {"light", "dark"}
    assert set(items["light"]) == set(made["light"])


def test_another_bokeh_makes_its_own(kept, monkeypatch):
    again("overlap")
    monkeypatch.setattr(module, "code_stamp", lambda *_: ("another", ()))
    again("overlap")
    assert len(list(kept.glob("*.json"))) == 2


def test_what_is_no_chart_has_none(kept):
    assert again("nonsense") == {}


def test_clearing_the_cache_takes_them_along(kept):
    again("overlap")
    cache.clear()
    assert not list(kept.glob("*"))
