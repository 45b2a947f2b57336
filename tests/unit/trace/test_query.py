"""Names and kinds in queries, which the page reads and writes as well."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from hta_widgets.errors import TraceError
from hta_widgets.trace.event_columns import query_mask
from hta_widgets.trace.query import QueryClauses, parse_clauses, validate_query

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/clauses.json").read_text("utf-8"))


@pytest.mark.parametrize("case", VECTORS["read"], ids=lambda case: repr(case["query"]))
def test_a_query_is_taken_apart(case):
    result = parse_clauses(case["query"])
    assert result.rest == case["rest"]
    assert result.names == (None if case["names"] is None else tuple(case["names"]))
    assert result.kinds == (None if case["kinds"] is None else tuple(case["kinds"]))


@pytest.mark.parametrize("case", VECTORS["write"], ids=lambda case: repr(case["becomes"]))
def test_names_and_kinds_are_replaced(case):
    result = parse_clauses(case["query"])
    for key in ("names", "kinds"):
        if key in case:
            result = replace(result, **{key: None if case[key] is None else tuple(case[key])})
    assert result.query == case["becomes"]


NAMES = st.lists(st.text(max_size=20), max_size=4)


@given(NAMES, st.sampled_from([None, "dur_ns > 5", "a == 1 or b == 2", "(a) and (b)"]))
def test_what_is_written_is_read(names, rest):
    written = QueryClauses(rest, tuple(names)).query
    again = parse_clauses(written)
    assert again.names == tuple(names)
    assert again.query == written


# pandas mistakes a backtick after a quoted quote for the start of a column name.
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="`"), max_size=12),
        min_size=1,
    )
)
def test_pandas_understands_it(names):
    frame = pd.DataFrame({"name": pd.Categorical([*names, "none of these names"])})
    query = QueryClauses(None, tuple(names)).query
    member = frame.eval(query, engine="python", local_dict={}, global_dict={})
    assert member.tolist() == [True] * len(names) + [False]


@pytest.mark.parametrize(
    "query",
    [
        "kind == 'communication' and dur_ns > 1_000_000",
        "name.str.contains('gemm', case=False) or not name.str.startswith('a.b')",
        "name == 'a' & dur_ns / 2 > 5 | ~(step in [1, 2])",
        "stream != -1 and 3 < depth <= 5 and category not in ('a', \"b\")",
        "`dur_ns` % 2 == 0 and correlation.isin([1, 2]) and name.str.len() > 3",
        "dur_ns > dur_ns.mean() and dur_ns < dur_ns.quantile(0.9)",
        "True",
    ],
)
def test_queries_over_columns_are_evaluated(query):
    validate_query(query)


@pytest.mark.parametrize(
    "hidden",
    ["# \u2028name.map(print)", "# \x0cname.map(print)", "#\x85x = name.map(print)"],
)
def test_lines_that_only_pandas_sees_are_not_evaluated(hidden):
    assert validate_query(f"dur_ns > 1 {hidden}") == "dur_ns > 1"


def test_texts_with_line_ends_stay_on_one_line():
    query = validate_query("name == 'a\\u2028b' & dur_ns > 1_000")
    assert query.splitlines() == [query]
    frame = pd.DataFrame({"name": ["a\u2028b", "a"], "dur_ns": [2_000, 2_000]})
    assert frame.eval(query, engine="python").tolist() == [True, False]


@pytest.mark.parametrize(
    "query",
    [
        "name.str.contains('gemm')",
        "name.str.contains('GEMM', case=False)",
        "name.str.contains('^a.*m$|\\\\d{2}')",
        "name.str.contains('a.b', regex=False)",
        "name.str.contains('A', flags=2)",
        "name.str.match('a|g')",
        "name.str.fullmatch('a.b')",
        "name.str.fullmatch('(?i)A.b')",
        "name.str.lower().str.contains('gemm')",
        "name.str.count('m') > 1",
        "~name.str.contains('a') and n > 1",
    ],
)
def test_regular_expressions_answer_as_pandas(query):
    names = ["gemm", "GEMM_12", "a.b", "axb", "am", "xa.b", "a.b\nc", ""]
    frame = pd.DataFrame({"name": names, "n": range(len(names))})
    expected = frame.eval(query, engine="python").tolist()
    for kind in (object, "category"):
        typed = frame.assign(name=frame["name"].astype(kind))
        assert query_mask(typed, query).tolist() == expected


@pytest.mark.parametrize(
    "query",
    ["name.str.contains('(?=a)')", "name.str.match('a)|(b')", "name.str.contains(1)",
     "n.str.contains('a')", "name.str.count('[')", "name.str.contains('a', flags=64)"],
)  # fmt: skip
def test_other_regular_expressions_are_refused(query):
    with pytest.raises(TraceError, match="does not work"):
        query_mask(pd.DataFrame({"name": ["a"], "n": [1]}), query)


@pytest.mark.parametrize("method", ["contains", "match", "fullmatch", "count"])
def test_no_regular_expression_takes_exponential_time(method):
    frame = pd.DataFrame({"name": ["a" * 5000 + "!"]})
    query_mask(frame, f"name.str.{method}('(a+)+$') == 1")


@pytest.mark.parametrize(
    "query",
    [
        "name.map.__globals__['sys'].modules['os'].system('true')",
        "name.map(print)",
        "@pd.read_pickle('x')",
        "__import__('os').system('true')",
        "dur_ns.to_csv('x')",
        "name.str.__class__",
        "name.str.cat.__globals__",
        "name.dtype.type.mro()",
        "(lambda: 1)()",
        "[x for x in name]",
        "dur_ns[0]",
        "x := 1",
        "dur_ns = 1",
        "dur_ns ** 99",
        "9 << 999",
        "name.str.lower() * 1_000_000_000",
        "'a' * 1_000_000_000 == name",
        "[1] * 1_000_000_000",
        "name.str.repeat(1_000_000_000)",
        f"dur_ns > {'9' * 30}",
        "f'{name}' == 'a'",
        "name ==",
        "(" * 500 + "1" + ")" * 500,
    ],
)
def test_other_code_is_refused(query):
    with pytest.raises(ValueError, match=r"query|Syntax|MemoryError|RecursionError"):
        validate_query(query)


@pytest.mark.parametrize(
    "computed",
    ["name.str.slice(0, 1).max() * 2000000000", "name.max() * 3", "name + name", "name * 3",
     "name.str.lower().sum()", "name.sum()", "(name.min() if True else 1) * 2",
     "3 * name.str.upper().max()", "dur_ns * name.str.strip().min()", "kind.str.lower() + 'a'",
     "name.str.slice(0, 1).mean()", "(dur_ns + 1) * [1]"],
)  # fmt: skip
def test_nothing_is_computed_from_texts(computed):
    frame = pd.DataFrame({"name": ["a", "b"], "dur_ns": [1, 2]})
    frame["kind"] = pd.Categorical(["x", "y"])
    with pytest.raises(TraceError, match=r"limited to numbers|cannot contain"):
        query_mask(frame, f"{computed} == 'a'")


def test_numbers_about_texts_are_computed_with():
    frame = pd.DataFrame({"name": ["a", "bcd"], "dur_ns": [1, 2]})
    query = "name.str.len() * 2 > name.str.count('a') + dur_ns.max() and name.count() + 1 == 3"
    assert query_mask(frame, query).tolist() == [False, True]
    assert query_mask(frame, "name.max() == name").tolist() == [False, True]


@pytest.mark.parametrize(
    "query",
    ["dur_ns" + " * 2" * 300 + " > 1", " or ".join(["dur_ns == 1"] * 300),
     f"dur_ns.isin({list(range(30_000))})", f"dur_ns in {['a'] * 30_000}",
     "-" * 300 + "1 > dur_ns"],
)  # fmt: skip
def test_costly_queries_are_refused(query):
    with pytest.raises(TraceError, match="a query has at most"):
        query_mask(pd.DataFrame({"dur_ns": [1]}), query)


@pytest.mark.parametrize(
    "query", ["dur_ns.quantile([0.5]) > 1", "dur_ns.quantile([0.2, 0.5]) > 1",
              "dur_ns + dur_ns.quantile([0.5]) > 1"]
)  # fmt: skip
def test_a_condition_of_other_rows_is_refused(query):
    with pytest.raises(TraceError, match="not a condition"):
        query_mask(pd.DataFrame({"dur_ns": [1, 2]}, index=[7, 8]), query)
