"""Records that are nearly JSON keep the intended texts and are never written as null."""

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


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"torch\nn\functional"', r"torch\nn\functional"),
        (r'"torch\nn\functional.py(12): relu"', r"torch\nn\functional.py(12): relu"),
        (r'"src\train.py(3): <module>"', r"src\train.py(3): <module>"),
        (r'"torch\backends"', r"torch\backends"),
        (r'"E:\new\test"', r"E:\new\test"),
        (r'"line\nbreak"', "line\nbreak"),
        (r'"loss\nfoo.py"', "loss\nfoo.py"),
        (r'"step\ttrain.py"', "step\ttrain.py"),
        (r'"loss\nfoo.py(12)"', "loss\nfoo.py(12)"),
        (r'"loss\n in foo.py(12): bar"', "loss\n in foo.py(12): bar"),
        (r'"a\tb\n"', "a\tb\n"),
        (r'"two words\fand more"', "two words\fand more"),
        (r'"torch\\nn\\functional"', r"torch\nn\functional"),
    ],
)
def test_a_path_whose_backslashes_all_begin_escapes(load_one, tmp_path, written, meant):
    """The file is valid JSON, so only the text suggests that it is a path."""
    trace, problems = load_one(named('"ok"', written, r'"torch\\nn\\functional"'))
    assert trace.events["name"].astype(str).tolist() == ["ok", meant, r"torch\nn\functional"]
    is_path = "\\" in meant and "\\\\" not in written
    assert problems["kind"].tolist() == ["repaired"] * is_path
    if is_path:
        assert "backslashes" in problems["detail"].iloc[0]
        hw.export_trace(trace, tmp_path / "copy.json")
        again = hw.load(tmp_path / "copy.json", cache=False, progress=False)[0]
        assert again.events["name"].astype(str).tolist() == trace.events["name"].tolist()


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


def test_args_of_repaired_records_are_not_read_from_the_file_again(tmp_path):
    group = {"Collective name": "allreduce", "Process Group Name": "dp", "Group size": 2}
    events = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1,
         "dur": 2, "args": {"correlation": 5}},
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": 4,
         "dur": 9, "args": {"stream": 7, "correlation": 5, "grid": [8, 1, 1], "block": [64, 1, 1],
                            **group, "odd": "NAN"}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 14, "dur": 9,
         "args": {"stream": 7, "grid": [4, 1, 1], "block": [32, 1, 1], "odd": "NAN"}},
    ]  # fmt: skip
    paths = [tmp_path / "rank_0.json", tmp_path / "rank_1.json"]
    for path in paths:
        path.write_text(json.dumps(events).replace('"NAN"', "NaN"))
    traces = hw.load(tmp_path, cache=False, progress=False)
    for path in paths:
        path.unlink()
    assert hw.analysis.collectives(traces).group.tolist() == ["dp", "dp"]
    details = hw.analysis.kernel_details(traces, ranks=[0])
    assert details[["grid", "block"]].to_numpy().tolist() == [["[4, 1, 1]", "[32, 1, 1]"]]


def test_launches_of_repaired_records_are_those_of_the_others(load_one):
    kernels = (
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": us, "dur": 9,
         "args": {"stream": 7, "grid": [4, 1, 1], "block": [32, 1, 1], "odd": odd}}
        for us, odd in ((10, 1), (20, "NAN"), (30, 2))
    )  # fmt: skip
    trace, _ = load_one(json.dumps(list(kernels)).replace('"NAN"', "NaN"))
    details = hw.analysis.kernel_details(hw.TraceSet([trace]))
    assert details[["count", "grid"]].to_numpy().tolist() == [[3, "[4, 1, 1]"]]
