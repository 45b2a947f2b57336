"""Charts have the timeline's colours."""

import re

import pytest

from hta_widgets.charts import DARK, LIGHT
from hta_widgets.charts.figure import mixed
from hta_widgets.charts.theme import theme_of


def in_typescript(text: str, theme: str) -> dict[str, object]:
    """The colours of one theme as the front end's source has them."""
    body = text.partition(f"const {theme}: Theme = {{")[2].partition("\n};")[0]
    found: dict[str, object] = dict(re.findall(r'^  (\w+): "(#\w+)"', body, re.MULTILINE))
    for group in ("kind", "onKind"):
        inner = re.search(rf"^  {group}: {{(.*?)}}", body, re.MULTILINE | re.DOTALL)
        assert inner is not None
        found[group] = dict(re.findall(r'(\w+): "(#\w+)"', inner[1]))
    return found


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_colours_are_those_of_the_timeline(repo, theme):
    drawn = in_typescript((repo / "js/src/ui/theme.ts").read_text("utf-8"), theme.name)
    assert dict(theme.kind) == drawn["kind"]
    assert dict(theme.on_kind) == drawn["onKind"]
    pairs = {
        "bg": "bg", "lane": "lane", "rule": "rule", "rule_strong": "ruleStrong", "ink": "ink",
        "ink2": "ink2", "ink3": "ink3", "wait_fill": "waitFill", "wait_line": "waitLine",
        "idle": "idle", "idle_line": "idleLine", "late": "late", "late_fill": "lateFill",
        "brush_line": "brushLine",
    }  # fmt: skip
    assert {ours: getattr(theme, ours) for ours in pairs} == {
        ours: drawn[theirs] for ours, theirs in pairs.items()
    }


def test_an_unknown_theme_is_named():
    with pytest.raises(ValueError, match="no theme 'sepia': there are light, dark"):
        theme_of("sepia")
    assert theme_of(DARK) is DARK


def test_mixed_colours():
    assert mixed("#000000", "#ffffff", 0.25) == "#bfbfbf"
    assert mixed("#1f77c0", "#ffffff", 1.0) == "#1f77c0"
