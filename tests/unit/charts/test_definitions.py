"""The language of chart definitions and the names used in definitions."""

import ast
import inspect
import json
from pathlib import Path
from unittest import mock

import msgspec
import numpy as np
import pandas as pd
import pytest
from support.chart_frames import ALL

from hta_widgets.charts import defined, definition, language
from hta_widgets.charts.theme import LIGHT
from hta_widgets.errors import TraceError
from hta_widgets.panels.frames import chart_panels

VECTORS = Path(__file__).parents[2] / "vectors/definitions.json"
CASES = json.loads(VECTORS.read_text("utf-8"))["cases"]
NAMES = sorted(path.stem for path in definition.FOLDER.glob("*.json") if path.stem != "bar_styles")
GIVEN = {"device_word", "nan", "late_ranks", "fact_ranks"}


@pytest.mark.parametrize("case", CASES, ids=[case.get("code", case.get("text")) for case in CASES])
def test_values_are_those_of_the_vectors(case):
    scope = {name: language.column(pd.Series(each)) for name, each in case["columns"].items()}
    scope |= {"late_ranks": [3], "fact_ranks": []}
    read = language.evaluate if "code" in case else language.fill_template
    result = read(case.get("code", case.get("text")), scope)
    if isinstance(result, np.ndarray | np.generic):
        result = result.tolist()
    text = json.dumps(result, ensure_ascii=False).replace("\u202f", " ")
    assert json.loads(text) == case["is"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("length +", r"'length \+' .* is not an expression"),
        ("lenght + 1", r"lenght cannot be evaluated .*a value \(length\) .*median"),
        ("length ** 2", r"length \*\* 2 cannot be evaluated"),
        ("0 < length < 2", r"0 < length < 2 cannot be evaluated"),
        ("text('{length:rate}')", r"unknown format 'rate'.*duration.*iteration"),
    ],
)
def test_a_faulty_expression_is_quoted(code, message):
    with pytest.raises(TraceError, match=message):
        language.evaluate(code, {"length": 1})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colums": []}, "unknown field `colums`"),
        ({"subtitle": "all"}, r"got `str` - at `\$.subtitle`"),
        ({"tooltip": None}, r"`\$.tooltip`"),
        ({"rows": {"name": "a", "keys": []}}, "required field `selects`"),
        ({"rows": {"name": "a", "keys": [], "selects": "rank"}}, "'rank' - at `\\$.rows.selects`"),
    ],
)
def test_a_faulty_definition_names_file_and_key(change, message, tmp_path, monkeypatch):
    look = msgspec.to_builtins(definition.definition("queue"))
    (tmp_path / "mine.json").write_text(json.dumps({**look, **change}))
    monkeypatch.setattr(definition, "FOLDER", tmp_path)
    with pytest.raises(TraceError, match=rf"mine\.json is invalid: .*{message}"):
        definition.definition("mine")


def test_an_unknown_color_is_named_with_those_that_there_are():
    with pytest.raises(TraceError, match=r"unknown bar style 'memori'.*memory"):
        definition.style_of("memori")
    with pytest.raises(TraceError, match=r"unknown color 'memory' .*tokens\.json"):
        defined.color_of("memory", LIGHT)


def names_in(code, known):
    """Return the names used in an expression but not defined."""
    unknown = []
    for node in ast.walk(language.parse_expression(code)):
        if isinstance(node, ast.Call):
            assert node.func.id in {*language.CELLS, *language.COLUMNS, "text"}, code
            if node.func.id == "text":
                unknown += names_in_text(node.args[0].value, known)
        elif isinstance(node, ast.Name) and node.id not in known:
            unknown.append(node.id)
    functions = {*language.CELLS, *language.COLUMNS, "text"}
    return [name for name in unknown if name not in functions]


def names_in_text(template, known):
    unknown = []
    for code, how in language.split_template(template)[1]:
        assert how in {*language.FORMATS, *language.NOUNS, ""}
        unknown += names_in(code, known)
    return unknown


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_column_an_earlier_name_or_a_function(name):
    look = msgspec.to_builtins(definition.definition(name))
    by_name = {*GIVEN, *look["needs"], *look.get("uses", ()), *look.get("attrs", ())}
    by_name |= {*look.get("cells", ())}
    # Values set by the interpreters.
    assert not {"row", "names", "ends", "parts"} & {*look.get("let", ()), *look["needs"]}
    before = look.get("from", {})
    for single, code in before.get("let", {}).items():
        assert names_in(code, by_name) == [], single
        by_name.add(single)
    for code in (*before.get("sort", ()), before.get("keep", "nan")):
        assert names_in(code, by_name) == []
    assert set(look.get("group", ())) <= by_name
    items = {*by_name}
    by_name.add("row")
    fold = look.get("fold")
    by_name |= {"who", "members"} if fold else set()
    for single, code in look.get("let", {}).items():
        assert names_in(code, by_name) == [], single
        by_name.add(single)
    if fold is not None:
        # Items by rank are folded before expressions can refer to them.
        by_rank = "rank" in look["rows"] and look["rows"]["selects"] == "ranks"
        of = items if by_rank else by_name
        codes = fold.get("keep", "nan"), fold["spread"]["of"], fold["spread"].get("at", "nan")
        assert [names_in(code, of) for code in codes] == [[], [], []]
        assert {"rank", *fold.get("each", ()), *fold.get("by", ())} <= of
    by_name |= {"names", "parts", "ends", "finding"}

    def check(value, key=""):
        if isinstance(value, dict) and key not in {"let", "from", "attrs", "names"}:
            for inner, each in value.items():
                check(each, inner)
        elif isinstance(value, list) and key not in {
            *("needs", "uses", "group", "unmatched", "cells")
        }:
            for each in value:
                check(each, "lines" if key in {"lines", "of"} and isinstance(each, str) else key)
        elif isinstance(value, str) and key in {
            "subtitle", "finding", "text", "name", "heading", "lines", "bar_text",
        }:  # fmt: skip
            assert names_in_text(value, by_name) == [], value
        elif isinstance(value, str) and key == "color":
            assert value in {*definition.bar_styles(), "ink"}
        elif isinstance(value, str) and key in {
            "when", "ns", "value", "share", "by", "to", "max_ticks", "zero_line", "place", "order",
            "rank", "late_rows", "bold_rows", "left", "right", "size", "marker", "angle", "pattern",
            "keys", "at", "window", "where", "pitch", "tokens", "start", "end",
        }:  # fmt: skip
            assert names_in(value, by_name) == [], value

    check(look)


def test_bar_styles_name_colors_of_both_themes():
    for style in definition.bar_styles().values():
        for token in (style.fill, style.line, style.hatch_color, style.on):
            assert defined.color_of(token or "bg", LIGHT).startswith("#")


@pytest.mark.parametrize("chart", sorted(ALL))
def test_the_default_title_of_a_chart_is_that_of_its_definition(chart):
    draw, make = ALL[chart]
    with mock.patch.object(definition, "rows_definition", wraps=definition.rows_definition) as read:
        draw(make().iloc[:0])
    titles = {definition.definition(*call.args).title for call in read.call_args_list}
    assert titles <= {inspect.signature(draw).parameters["title"].default}


def test_every_panel_of_a_definition_has_its_file():
    assert set(chart_panels()) <= set(NAMES)
