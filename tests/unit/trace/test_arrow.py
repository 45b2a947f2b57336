"""Events as Arrow: the same values as in frames, one batch per rank, shared memory, Parquet."""

import pyarrow as pa
import pytest
from pyarrow import parquet
from support import small


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    ranks = [
        [small.call(0, 5, launch=1), small.kernel(10, 30, launch=1), small.nccl(40, 60)],
        [small.kernel(1_000, 1_010, name="only here"), small.copy(2_000, 2_500)],
    ]
    return small.load(tmp_path_factory.mktemp("arrow"), *ranks)


def texts(column):
    return [str(value) for value in column]


@pytest.mark.parametrize("part", ["set", "rank", "selection", "window of one rank"])
def test_a_stream_has_the_values_of_the_frame(traces, part):
    compute = traces.select("kind == 'compute'")
    selection = traces.select(start_ns=20, end_ns=2_000, ranks=[1])
    source, frame = {
        "set": (traces, traces.events()),
        "rank": (traces[1], traces[1].events.assign(rank=1)),
        "selection": (compute, traces.events().query("kind == 'compute'")),
        "window of one rank": (selection, selection.events()),
    }[part]
    table, frame = pa.table(source), frame.reset_index()
    assert {*table.column_names} == {*frame}
    assert all(texts(table[name].to_pylist()) == texts(frame[name]) for name in frame)


def test_batches_dictionaries_and_units(traces):
    reader = pa.RecordBatchReader.from_stream(traces)
    assert reader.schema.field("dur_ns").metadata == {b"unit": b"ns"}
    assert reader.schema.field("dur_ns").type == pa.int64()
    assert pa.types.is_dictionary(reader.schema.field("name").type)
    assert [batch["rank"].to_pylist()[0] for batch in reader] == [0, 1]


def test_durations_and_names_share_the_memory_of_the_trace(traces):
    table, batch = traces[0].table, pa.table(traces[0]).to_batches()[0]
    assert batch["dur_ns"].buffers()[1].address == table.dur_ns.ctypes.data
    assert batch["name"].indices.buffers()[1].address == table.name.ctypes.data


def test_stream_ids_may_have_64_bits(tmp_path):
    handle = 0x7F12_3456_7890  # as of HIP
    ranks = [small.kernel(0, 1, stream=handle)], [small.kernel(0, 1, stream=7)]
    traces = small.load(tmp_path, *ranks)
    assert pa.table(traces)["stream"].to_pylist() == [-1, handle, -1, 7]
    assert pa.table(traces[1])["stream"].to_pylist() == [-1, 7]
    assert pa.table(traces.select("kind == 'compute'"))["stream"].to_pylist() == [handle, 7]
    files = traces.to_parquet(tmp_path / "events")
    assert parquet.read_table(f"{files}/rank-0.parquet")["stream"].to_pylist() == [-1, handle]


def test_names_with_invalid_unicode_are_valid_in_arrow(tmp_path):
    trace = small.load(tmp_path, [small.kernel(0, 1)])[0]
    names = trace.table.names.values
    names[names.index("gemm")] = "a\ud800b"  # our readers repair names, other packages may not
    assert "a?b" in pa.table(trace)["name"].to_pylist()


def test_parquet_has_a_file_for_each_rank(traces, tmp_path):
    folder = traces.to_parquet(tmp_path / "events")
    files = sorted(path.name for path in (tmp_path / "events").iterdir())
    assert files == ["rank-0.parquet", "rank-1.parquet"]
    table = parquet.read_table(f"{folder}/rank-1.parquet")
    assert table["dur_ns"].to_pylist() == traces[1].events["dur_ns"].tolist()
    assert table.schema.field("start_ns").metadata[b"unit"] == b"ns"


def test_polars_and_duckdb_read_traces(traces):
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    frame = polars.DataFrame(traces.select("kind == 'compute'"))
    assert frame["name"].cast(polars.String).to_list() == ["gemm", "only here"]
    assert polars.DataFrame(traces[1]).height == len(traces[1])
    # `polars.DataFrame` treats the values of any mapping as columns.
    assert polars.from_dataframe(traces)["rank"].unique().sort().to_list() == [0, 1]
    sums = duckdb.sql(
        "select rank, sum(dur_ns) from traces where stream >= 0 group by all order by 1"
    )
    assert sums.fetchall() == [(0, 40), (1, 510)]
