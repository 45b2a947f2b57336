"""Names and kinds in queries, as the page reads and writes them too."""

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from hta_widgets.trace.query import Clauses, read_clauses

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/clauses.json").read_text("utf-8"))


@pytest.mark.parametrize("case", VECTORS["read"], ids=lambda case: repr(case["query"]))
def test_a_query_is_taken_apart(case):
    found = read_clauses(case["query"])
    assert found.rest == case["rest"]
    assert found.names == (None if case["names"] is None else tuple(case["names"]))
    assert found.kinds == (None if case["kinds"] is None else tuple(case["kinds"]))


@pytest.mark.parametrize("case", VECTORS["write"], ids=lambda case: repr(case["becomes"]))
def test_names_and_kinds_are_replaced(case):
    found = read_clauses(case["query"])
    if "names" in case:
        found = found.with_names(case["names"])
    if "kinds" in case:
        found = found.with_kinds(case["kinds"])
    assert found.query == case["becomes"]


NAMES = st.lists(st.text(max_size=20), max_size=4)


@given(NAMES, st.sampled_from([None, "dur_ns > 5", "a == 1 or b == 2", "(a) and (b)"]))
def test_what_is_written_is_read(names, rest):
    written = Clauses(rest, tuple(names)).query
    again = read_clauses(written)
    assert again.names == tuple(names)
    assert again.query == written


# pandas takes a backtick behind a quoted quote for the begin of a column's name.
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="`"), max_size=12),
        min_size=1,
    )
)
def test_pandas_understands_it(names):
    frame = pd.DataFrame({"name": pd.Categorical([*names, "none of these names"])})
    query = Clauses(None, tuple(names)).query
    member = frame.eval(query, engine="python", local_dict={}, global_dict={})
    assert member.tolist() == [True] * len(names) + [False]
