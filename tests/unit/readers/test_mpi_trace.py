"""MPI timelines in either byte order, damaged ones, and files of other formats."""

import gzip
import struct

import numpy as np
import pytest
from support import small

import hta_widgets as hw
from hta_widgets.analysis import collectives, mpi_routines
from hta_widgets.demo.mpi import write_mpi_job

BCAST, ALLREDUCE, SEND, RECV, WRITE_AT, SEEK = 33, 39, 2, 15, 138, 130


def record(begin, end, rank, routine, words=(-1, -1), size=-1, io=0, order="<"):
    return struct.pack(f"{order}ddiiiiiIIi", begin, end, rank, routine, *words, size, 0x1000, 0, io)


def offset_words(offset):
    """Return an offset as two words, low word first; swapping a file keeps this order."""
    low, high = struct.unpack("<ii", struct.pack("<q", offset))
    return low, high


def lines(order="<"):
    records = [
        (0.001, 0.002, 0, BCAST, (1, -1), 1152),
        (0.002, 0.003, 0, SEND, (-1, 1), 40),
        (0.003, 0.004, 0, WRITE_AT, offset_words(5_000_000_000), 32768, 1),
        (0.004, 0.0045, 0, SEEK, offset_words(-1), -1, 1),
        (0.0015, 0.002, 1, BCAST, (1, -1), 1152),
        (0.002, 0.0031, 1, RECV, (0, -1), 40),
    ]
    return b"".join(record(*each_record, order=order) for each_record in records)


@pytest.fixture
def load(tmp_path):

    def _load(contents, name="42.trc"):
        (tmp_path / name).write_bytes(contents)
        return hw.load(tmp_path / name, cache=False, progress=False)

    return _load


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(load, order):
    traces = load(lines(order))
    assert (traces.format, traces.ranks, traces[0].job) == ("mpi-trace", [0, 1], "42")
    assert traces.problems.empty
    columns = ["name", "start_ns", "dur_ns", "kind", "track"]
    assert traces[0].events[columns].values.tolist() == [
        ["MPI_Bcast", 0, 1_000_000, "communication", "MPI · calls"],
        ["MPI_Send", 1_000_000, 1_000_000, "communication", "MPI · calls"],
        ["MPI_File_write_at", 2_000_000, 1_000_000, "other", "MPI · file calls"],
        ["MPI_File_seek", 3_000_000, 500_000, "other", "MPI · file calls"],
    ]
    assert traces[1].events.start_ns.tolist() == [500_000, 1_000_000]
    caller = {"caller": "0x00001000"}
    assert [traces[0].args(row) for row in range(4)] == [
        {"bytes": 1152, "src": 1, "root": 1, **caller},
        {"bytes": 40, "dest": 1, "peer": 1, **caller},
        {"bytes": 32768, "offset": 5_000_000_000, **caller},
        caller,
    ]
    assert traces[1].args(1) == {"bytes": 40, "src": 0, "peer": 0, **caller}
    frame = mpi_routines(traces, ranks=[0]).set_index("routine")
    assert frame.is_io.to_dict() == {
        "MPI_Send": False, "MPI_Bcast": False, "MPI_File_seek": True, "MPI_File_write_at": True,
    }  # fmt: skip
    assert frame.share_of_time["MPI_Send"] == 0.5


def test_a_compressed_one(load):
    traces = load(gzip.compress(lines()), "42.trc.gz")
    assert (traces[0].job, len(traces[0])) == ("42", 4)
    assert traces[1].args(0)["root"] == 1


def test_a_cut_or_damaged_file_gives_what_is_whole(load):
    traces = load(lines()[:-7])
    assert [len(trace) for trace in traces.values()] == [4, 1]
    assert traces.problems.kind.tolist() == ["truncated"]
    assert "41 bytes" in traces.problems.detail[0]
    full = b"".join(record(k, k + 0.5, 0, ALLREDUCE, size=8) for k in range(99))
    traces = load(full + record(5.0, 4.0, 0, ALLREDUCE))
    assert len(traces[0]) == 99
    assert traces.problems[["kind", "count"]].values.tolist() == [["skipped", 1]]


def test_full_buffers_are_suspected(load):
    def of_four_ranks(count):
        times = [(rank, k) for rank in range(4) for k in range(count)]
        return b"".join(record(k, k + 0.5, rank, ALLREDUCE, size=8) for rank, k in times)

    (problem,) = load(of_four_ranks(100)).problems.itertuples()
    assert (problem.kind, problem.count) == ("overflow", 4)
    assert "exactly 100 events" in problem.detail
    assert load(of_four_ranks(37)).problems.empty


def test_sizes_beyond_31_bits_are_told_of(load):
    sizes = (-294967296, 9)
    traces = load(
        b"".join(record(k, k + 1, 0, SEND, (-1, 1), size) for k, size in enumerate(sizes))
    )
    assert traces.problems[["kind", "count"]].values.tolist() == [["overflow", 1]]


def test_ranks_that_are_mixed_in_the_file(load):
    traces = load(b"".join(lines()[48 * k : 48 * (k + 1)] for k in (4, 0, 1, 5, 2, 3)))
    assert [len(trace) for trace in traces.values()] == [4, 2]
    assert traces[1].args(1)["peer"] == 0


@pytest.mark.parametrize(
    "contents",
    [
        bytes(48 * 20),
        np.random.default_rng(1).bytes(4800),
        lines()[:47],
        b"\x7fELF" + bytes(4796),
        np.arange(1200, dtype="<f4").tobytes(),
        np.linspace(1, 2, 600).tobytes(),
    ],
    ids=["zeros", "noise", "less than a record", "program", "floats", "doubles"],
)
def test_other_binary_files_are_none(load, contents):
    with pytest.raises(hw.TraceError):
        load(contents)


def test_a_file_that_changed_is_not_read_again(load, tmp_path):
    traces = load(lines())
    (tmp_path / "42.trc").write_bytes(lines() * 2)
    with pytest.raises(hw.TraceError, match="was changed after it was loaded"):
        traces[0].args(0)


def test_swapped_jobs_are_the_same(tmp_path):
    for name, swapped in (("plain", False), ("swapped", True)):
        write_mpi_job(tmp_path / name, ranks=3, steps=3, hosts=1, swapped=swapped)
    first, other = (small.read(tmp_path / name / "90001.trc") for name in ("plain", "swapped"))
    assert first.events().equals(other.events())
    assert collectives(first).equals(collectives(other))
    texts = [
        [text for _, text in traces[1].source.records(np.arange(len(traces[1].source)))]
        for traces in (first, other)
    ]
    assert texts[0] == texts[1]
