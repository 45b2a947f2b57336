"""The facts shared by Python and the page: JSON files in `hta_widgets/facts`."""

import itertools
import math
import re
from pathlib import Path

import pytest

from hta_widgets import analysis
from hta_widgets.facts import facts, note_text
from hta_widgets.panels.frames import all_panels

ROOT = Path(__file__).parents[2]
#: Sources in which each language refers to notes.
SOURCES = {
    "Python": [*(ROOT / "hta_widgets").rglob("*.py")],
    "the page": [
        each for each in (ROOT / "js/src").rglob("*.ts*") if not each.name.endswith(".test.ts")
    ],
}

#: Panels whose rows are not made by a single function in `hta_widgets.analysis`.
WITHOUT_ANALYSIS = {"call_tree", "call_tree_device", "bandwidth", "messages"}


def test_both_themes_have_all_tokens_and_a_color_for_each_kind():
    light, dark = facts("tokens")["light"], facts("tokens")["dark"]
    for theme in (light, dark):
        assert list(theme) == list(light)
        for group in ("kind", "onKind", "nameShades"):
            assert list(theme[group]) == list(facts("kinds"))
        assert {name: shades[0] for name, shades in theme["nameShades"].items()} == theme["kind"]


def lab(color):
    """Return a color in CIELAB (D65)."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("name", ["light", "dark"])
def test_late_errors_and_synchronization_are_told_apart(name):
    theme = facts("tokens")[name]
    colors = [theme["late"], theme["errorInk"], theme["kind"]["sync"]]
    for single, other in itertools.combinations(map(lab, colors), 2):
        assert math.dist(single, other) > 25


@pytest.mark.parametrize("name", ["event_classes", "bound_classes"])
def test_every_class_of_events_has_colors_and_one_place_in_the_legend(name):
    expected = facts(name)
    assert list(expected["light"]) == list(expected["dark"])
    listed = [name for group in expected["groups"] for name in group["classes"]]
    assert sorted(listed) == sorted(expected["light"])
    assert set(expected["hatched"]) < set(listed)


@pytest.mark.parametrize("language", SOURCES)
def test_both_languages_read_each_limit(language):
    source = "\n".join(file.read_text("utf-8") for file in SOURCES[language])
    assert facts("limits").keys() <= set(re.findall(r"\w+", source))


def test_every_cause_of_idleness_has_a_label_and_a_meaning():
    for name, cause in facts("causes").items():
        assert set(cause) == {"label", "meaning", "advice"}, name
        assert cause["label"], name
        assert cause["meaning"], name
        # Advice is given only for known causes.
        assert bool(cause["advice"]) == (name != "unknown"), name


def test_metrics_have_a_ramp_and_name_kinds():
    for metric in facts("metrics").values():
        assert metric["ramp"] in facts("tokens")["light"]
        assert set(metric["kinds"]) <= set(facts("kinds"))


def test_panels_have_a_title_a_line_and_an_analysis():
    expected = facts("panels")
    assert [*all_panels(), "summary"] == list(expected)
    titles = [value["title"] for value in expected.values()]
    assert len(set(titles)) == len(titles)
    for name, value in expected.items():
        assert value["shape"] in {"timeline", "heatmap", "chart", "table", "words"}, name
        assert value["about"], name
        assert set(value["own"]) <= {
            "window",
            "ranks",
            "tracks",
            "ids",
            "names",
            "kinds",
            "rest",
        }, name
        shows_rows = value["shape"] in {"heatmap", "chart", "table"}
        assert ("analysis" in value) == (shows_rows and name not in WITHOUT_ANALYSIS), name
        assert hasattr(analysis, value.get("analysis", "operators")), name


@pytest.mark.parametrize("language", SOURCES)
def test_each_note_is_said_by_both_languages(language):
    source = "\n".join(each.read_text("utf-8") for each in SOURCES[language])
    assert {name for name in facts("notes") if f'"{name}"' not in source} == set()


def test_a_note_takes_what_its_holes_name():
    text = note_text("no_steps_selected", steps=3)
    assert text.endswith("none of the 3 ProfilerStep#n ranges on the host: select them as well")
    assert not re.search(r"[{}]", text)
