"""What selections are called, by Python as by the page."""

import json
from pathlib import Path

import pytest

from hta_widgets.trace.names import short_name
from hta_widgets.trace.selection import Selection, selection_words

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/words.json").read_text("utf-8"))


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["words"])
def test_a_selection_in_words(case):
    selection = None if case["selection"] is None else Selection.from_json(case["selection"])
    short = case.get("short", {})
    assert selection_words(selection, lambda name: short.get(name, name)) == case["words"]
    for name, expected in short.items():
        assert short_name(name) == expected
