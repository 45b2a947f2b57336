import pytest

from hta_widgets.trace.problems import PROBLEM_KINDS, Problems


def test_kinds_are_those_of_the_public_surface():
    assert set(PROBLEM_KINDS) == {
        "skipped", "repaired", "rounding", "truncated", "empty", "foreign", "duplicate_rank",
        "guessed_rank", "overlap", "unpaired", "overflow", "stale", "clock", "part",
        "merged", "capture",
    }  # fmt: skip


def test_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'lost'.*skipped, repaired"):
        Problems().add("lost", 1, "detail")


def test_equal_problems_add_up_and_none_leave_no_trace():
    problems = Problems()
    problems.add("skipped", 2, "no time", 1, "a")
    problems.add("skipped", 3, "no time", 1, "a")
    problems.add("skipped", 0, "nothing", 1, "a")
    problems.add("skipped", 1, "no time", 2, "a")
    assert [(p.rank, p.count) for p in problems] == [(1, 5), (2, 1)]


def test_merge_names_the_rank_of_those_without():
    inner = Problems()
    inner.add("repaired", 1, "x", file="a")
    inner.add("repaired", 1, "y", rank=5, file="a")
    outer = Problems()
    outer.merge(inner, rank=3)
    assert [(p.rank, p.detail) for p in outer] == [(3, "x"), (5, "y")]


def test_frame_has_its_columns_even_when_empty():
    frame = Problems().frame()
    assert list(frame.columns) == ["rank", "file", "kind", "count", "detail"]
    assert frame["count"].dtype == "int64"
    problems = Problems()
    problems.add("empty", 1, "no events", file="a.json")
    assert problems.frame().iloc[0].tolist() == [-1, "a.json", "empty", 1, "no events"]
    assert "no events" in repr(problems.frame())


def test_no_problems_are_shown_as_a_sentence():
    frame = Problems().frame()
    sentence = "No problems: nothing was skipped, repaired or guessed."
    assert repr(frame) == sentence
    assert frame._repr_html_() == f"<p>{sentence}</p>"
