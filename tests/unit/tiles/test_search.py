"""Names that a search text matches, compared with vectors shared with the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hta_widgets.tiles.search import match_names

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/search.json").read_text("utf-8"))


@pytest.mark.parametrize("text", VECTORS["texts"])
def test_texts(text):
    result, error = match_names(text, VECTORS["names"])
    assert error is None
    assert [at for at, hit in enumerate(result) if hit] == VECTORS["texts"][text]


@pytest.mark.parametrize("text", VECTORS["bad"])
def test_expressions_that_cannot_be_used(text):
    result, error = match_names(text, VECTORS["names"])
    assert not any(result)
    assert "not a regular expression" in error


def test_a_pattern_that_would_backtrack_takes_linear_time():
    # `re` would take about 2 ** 60 steps per name.
    assert match_names(r"/(a+)+$/", ["a" * 60 + "!", "a" * 60] * 1_000) == (
        [False, True] * 1_000,
        None,
    )


def test_names_with_lone_surrogates_are_searched():
    assert match_names("/gemm$/", ["\ud800 gemm", "\ud800"]) == ([True, False], None)
