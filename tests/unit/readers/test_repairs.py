"""Records that are nearly JSON keep the texts that were meant, and are never written as null."""

import json

import pytest

import hta_widgets as hw

RECORD = (
    '{"ph": "X", "cat": "python_function", "name": NAME, "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
)


def named(*names):
    return f"[{', '.join(RECORD.replace('NAME', name) for name in names)}]"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"torch\nn\modules.py"', r"torch\nn\modules.py"),
        (r'"runs\test\x"', r"runs\test\x"),
        (r'"C:\Users\new"', r"C:\Users\new"),
        (r'"D:\u1234\new"', r"D:\u1234\new"),
        (r'"\\srv\new\data"', r"\\srv\new\data"),
        (r'"say \"hi\" in torch\nn\x"', r'say "hi" in torch\nn\x'),
    ],
)
def test_backslashes_are_those_of_the_file_where_one_cannot_be_an_escape(load_one, written, meant):
    trace, problems = load_one(named(r'"line\nbreak \u00e9"', written, r'"\q"'))
    assert trace.events["name"].astype(str).tolist() == ["line\nbreak é", meant, r"\q"]
    assert problems["kind"].tolist() == ["repaired"]
    assert "backslashes" in problems["detail"].iloc[0]


def test_texts_of_one_record_are_judged_each_by_itself(load_one):
    trace, _ = load_one(named(r'"a\qb"').replace('"python_function"', r'"x\ny"'))
    assert trace.events["name"].astype(str).tolist() == [r"a\qb"]
    assert trace.events["category"].astype(str).tolist() == ["x\ny"]


@pytest.mark.parametrize("word", ["ncclFloat32", "0x7f12d00", "a.b:c-d", "-inf", "(nil)", "1.5f"])
def test_bare_words_are_kept_as_texts(load_one, word):
    body = named('"ok"', '"odd"').replace('"dur": 2}]', f'"dur": 2, "args": {{"v": {word}}}}}]')
    trace, problems = load_one(body)
    assert trace.events["name"].astype(str).tolist() == ["ok", "odd"]
    assert trace.args(1)["v"] == word
    assert problems["count"].tolist() == [1]


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        ('"v": [ncclSum, 3,], "w": 1', {"v": ["ncclSum", 3], "w": 1}),
        ('"v": , "w": 1,', {"v": None, "w": 1}),
        ('"v": -Infinity, "w": None', {"v": "-Infinity", "w": "None"}),
    ],
)
def test_stray_commas_and_missing_values(load_one, args, meant):
    body = named('"ok"').replace('"dur": 2}', f'"dur": 2, "args": {{{args}}}}}')
    trace, problems = load_one(body)
    assert trace.args(0) == meant
    assert problems["kind"].tolist() == ["repaired"]


@pytest.mark.parametrize("tail", [", {}]", ",\n", ""])
def test_the_last_record_may_be_the_one_to_repair(load_one, tail):
    body = named('"ok"', '"odd"').replace('"dur": 2}]', '"dur": 2, "args": {"v": half}}' + tail)
    trace, _ = load_one(body)
    assert trace.events["name"].astype(str).tolist() == ["ok", "odd"]


@pytest.mark.parametrize("case", ["unescaped/trace.json", "nccl-plugin/nccl_0_0.json"])
def test_no_record_is_written_as_null(shared, tmp_path, case):
    read = hw.load(shared / "cases" / case, cache=False)
    for traces in (read, hw.load(read.save(tmp_path / "kept.store"))):
        hw.export_trace(traces, tmp_path / "copy.json")
        records = json.loads((tmp_path / "copy.json").read_text())["traceEvents"]
        assert all(isinstance(record, dict) for record in records)
        again = hw.load(tmp_path / "copy.json", cache=False)
        assert len(again[0]) == len(read[0]) == (3 if case.startswith("un") else 0)
        assert len(again[0].asyncs) == len(read[0].asyncs) == (0 if case.startswith("un") else 12)
