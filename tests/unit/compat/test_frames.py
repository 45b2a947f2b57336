"""HTA's symbol table, parser configuration and frame helpers."""

import pandas as pd

import hta_widgets as hw
from hta_widgets.compat.config import AVAILABLE_ARGS, ParserConfig, is_valid_directory
from hta_widgets.compat.frames import (
    TraceSymbolTable,
    flatten_column_names,
    get_kernel_type,
    get_memory_kernel_type,
    in_us,
    merge_kernel_intervals,
    number_or_text,
    shorten_name,
)


def test_symbol_tables():
    table = TraceSymbolTable(["aten::mm", "kernel", "aten::add(int)"])
    assert table.find_matched_symbols(["^aten"]) == ["aten::mm", "aten::add(int)"]
    assert table.find_matched_symbols(["add(int"]) == ["aten::add(int)"]  # not a valid regex
    frame = pd.DataFrame({"name": [0, 2], "cat": [1, 1]})
    table.decode_df(frame)
    assert frame["s_name"].tolist() == ["aten::mm", "aten::add(int)"]
    assert table.get_symbol_names([-1, 2, 9]) == {2: "aten::add(int)"}
    named = TraceSymbolTable(
        ["cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "Memcpy DtoH", "mm"]
    )
    assert named.get_cpu_event_cat_ids() == [0, 3]
    assert named.get_gpu_kernel_cat_ids() == [1, 2]
    assert named.get_memory_name_ids() == [4]
    other = TraceSymbolTable(["x", *reversed(table.sym_table)])
    other.update_encoded_df(frame, table)
    assert frame["name"].tolist() == [3, 1]
    assert TraceSymbolTable.create_from_symbol_id_map({"a": 2}).sym_table == [
        "Undefined-0", "Undefined-1", "a",
    ]  # fmt: skip


def test_parser_configurations():
    config = ParserConfig(args=ParserConfig.get_minimum_args())
    assert config.get_fingerprint_key() == (("correlation", "stream"), False)
    assert "parse_all_args=False" in repr(config)
    args = pd.Series([{"a b": 1, "bytes": 2}, None, {"c": 0.5, "d": {}, "e": "x"}])
    by_name = {"data::bytes": AVAILABLE_ARGS["data::bytes"]}
    result = ParserConfig.infer_attribute_specs(args, by_name)
    assert list(result) == ["a b", "bytes", "c", "d", "e"]
    assert result["bytes"] is AVAILABLE_ARGS["data::bytes"]
    assert [(spec.name, spec.value_type.name, spec.default_value) for spec in result.values()] == [
        ("a_b", "Int", 0), ("bytes", "Int", -1), ("c", "Float", 0.0), ("d", "Object", None),
        ("e", "String", ""),
    ]  # fmt: skip


def test_whole_microseconds_stay_whole():
    assert in_us([1000, 2000]).dtype == "int64"
    assert in_us([1000, 2500]).tolist() == [1.0, 2.5]
    assert in_us([]).dtype == "int64"
    assert number_or_text(["3", "-1"]).tolist() == [3, -1]
    assert number_or_text(["3", "main"]).tolist() == [3, "main"]


def test_names():
    assert shorten_name("void at::native::add<float, 4>(int, float*)") == "at::native::add"
    assert shorten_name("f(a->b)") == "f"
    assert shorten_name("Memcpy DtoH (Device -> Pinned)") == "Memcpy DtoH (Device -> Pinned)"
    assert get_kernel_type("ncclDevKernel_AllReduce") == "COMMUNICATION"
    assert get_kernel_type("Memset (Device)") == "MEMORY"
    assert get_memory_kernel_type("Memcpy DtoH (Device -> Pinned)") == "Memcpy DtoH"
    assert get_memory_kernel_type("dma") == "Memcpy Unknown"


def test_rules_of_users_count():
    assert get_kernel_type("my_exchange_kernel") == "COMPUTATION"
    hw.taxonomy.add("communication", "^my_exchange")
    try:
        assert get_kernel_type("my_exchange_kernel") == "COMMUNICATION"
    finally:
        hw.taxonomy.reset()


def test_intervals_that_touch_become_one():
    for scale in (1, 0.5):
        frame = pd.DataFrame({"ts": [20, 0, 5, 10], "dur": [5, 8, 5, 2]}) * scale
        merged = merge_kernel_intervals(frame)
        assert merged.to_numpy().tolist() == [[0, 12 * scale], [20 * scale, 25 * scale]]


def test_column_names_and_folders(tmp_path):
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("c", "")]))
    flatten_column_names(frame)
    assert list(frame.columns) == ["a_b", "c"]
    assert is_valid_directory(str(tmp_path), must_be_writable=True).success
    assert not is_valid_directory(str(tmp_path / "no")).success
    assert not is_valid_directory("").success
