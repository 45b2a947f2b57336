"""Groups of similar ranks as the page gets them."""

import pandas as pd
import pytest

import hta_widgets.analysis
from hta_widgets.tiles.lateness import clusters


def frame(rows, note=""):
    names = ["rank", "cluster", "representative", "distance", "is_outlier", "why"]
    made = pd.DataFrame(rows, columns=names)
    made.attrs["note"] = note
    return made


JOB = frame(
    [
        (0, 0, 3, 0.1, False, "like rank 3"),
        (1, 1, 1, 0.0, False, "stage 1"),
        (2, 2, 2, 9.0, True, "computes 25 % longer"),
        (3, 0, 3, 0.0, False, "stage 0"),
        (4, 1, 1, 0.2, False, "like rank 1"),
    ],
    note="of 2 steps",
)


def test_groups_have_their_ranks_and_say_what_the_representative_says():
    found = clusters(JOB)
    assert found["clusters"] == [
        {"representative": 1, "ranks": [1, 4], "why": "stage 1"},
        {"representative": 3, "ranks": [0, 3], "why": "stage 0"},
    ]
    assert found["outliers"] == [{"rank": 2, "why": "computes 25 % longer"}]
    assert found["note"] == "of 2 steps"


def test_a_representative_that_is_an_outlier_itself_does_not_stand_for_others():
    found = clusters(frame([(0, 0, 0, 1.0, True, "odd"), (1, 0, 0, 0.1, False, "like 0")]))
    assert found["clusters"] == [{"representative": 1, "ranks": [1], "why": "like 0"}]


def test_nothing_to_group_says_why():
    found = clusters(frame([], note="one rank"))
    assert found == {"clusters": [], "outliers": [], "note": "one rank"}


def test_the_engine_asks_the_analysis_once(ask, monkeypatch):
    asked = []

    def rank_clusters(traces):
        asked.append(list(traces))
        return frame([(0, 0, 0, 0.0, False, ""), (1, 0, 0, 0.0, False, "")])

    monkeypatch.setattr(hta_widgets.analysis, "rank_clusters", rank_clusters, raising=False)
    first, again = ask("clusters"), ask("clusters")
    assert first == again
    assert first["clusters"] == [{"representative": 0, "ranks": [0, 1], "why": ""}]
    assert asked == [[0, 1]]


def test_the_engine_refuses_fields_that_are_missing(ask):
    with pytest.raises(ValueError, match="missing required field `bins`"):
        ask("ribbon", start=0, end=5)
