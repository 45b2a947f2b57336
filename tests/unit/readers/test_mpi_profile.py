"""MPI profiles: old, localized, truncated, stale, or several in a file."""

import gzip

import pytest

import hta_widgets as hw
from hta_widgets.analysis import mpi_imbalance, mpi_ranks, mpi_routines
from hta_widgets.demo.mpi import write_mpi_job

from .conftest import event

#: The format of about 2013: no jobs in names, kilobytes, and a table ordered by time.
OLD = """\
Data for MPI rank 0 of 2:
Times and statistics from summary_start() to summary_stop().
-----------------------------------------------------------------
MPI Routine                  #calls     avg. bytes      time(sec)
-----------------------------------------------------------------
MPI_Comm_rank                     3            0.0          0.000
MPI_Isend                       100         1024.0          0.010
MPI_Waitall                     100            0.0          1.500
-----------------------------------------------------------------
total communication time = 1.510 seconds.
total elapsed time       = 4.000 seconds.
user cpu time            = 3.900 seconds.
system time              = 0.050 seconds.
maximum memory size      = 20480 KBytes.

-----------------------------------------------------------------
Message size distributions:

MPI_Isend                 #calls    avg. bytes      time(sec)
                             100        1024.0          0.010

-----------------------------------------------------------------

Communication summary for all tasks:

  minimum communication time = 1.510 sec for task 0
  median  communication time = 1.510 sec for task 0
  maximum communication time = 1.800 sec for task 1


MPI tasks sorted by communication time:
taskid    comm(s)  elapsed(s)     user(s)     size(KB)    switches
     0       1.51        4.00        3.90        20480          11
     1       1.80        4.00        3.80        10240          12
"""


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


def kinds(traces):
    return sorted(set(traces.problems.kind))


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpi") / "job"
    write_mpi_job(folder, ranks=4, steps=4, slow_rank=2, traces=False)
    return folder


def test_the_form_of_2013(tmp_path):
    (tmp_path / "mpi_profile.0").write_text(OLD)
    traces = load(tmp_path)
    profile = traces[0].profile
    assert profile.region == ("summary_start()", "summary_stop()")
    assert (profile.rss_mib, profile.system_s) == (20.0, 0.05)
    assert profile.summary.comm_s == ((1.51, 0), (1.51, 0), (1.8, 1))
    table = mpi_ranks(traces)
    assert table.rss_mib.tolist() == [20.0, 10.0]
    assert table.switches.tolist() == [11, 12]
    assert table.system_s.isna().all()
    assert table.host.tolist() == ["", ""]
    assert traces.problems.empty
    routines = mpi_routines(traces).set_index("routine")
    assert routines.share_of_time["MPI_Waitall"] == pytest.approx(1.5 / 1.51)


def test_a_comma_is_a_decimal_mark(job, tmp_path):
    for file in job.iterdir():
        # Only numbers change: names in the file have no dots between digits.
        text = file.read_text()
        head, *rest = text.split("\n")
        swapped = "\n".join([head, *(line.replace(".", ",") for line in rest)])
        for label in ("avg, bytes", "()", "seconds,"):
            swapped = swapped.replace(label, label.replace(",", "."))
        (tmp_path / file.name).write_text(swapped)
    german, english = load(tmp_path), load(job)
    assert german.problems.empty
    assert mpi_routines(german).equals(mpi_routines(english))
    assert mpi_ranks(german).equals(mpi_ranks(english))


def test_files_of_another_run_are_found_out(tmp_path):
    folder = tmp_path / "job"
    write_mpi_job(folder, ranks=4, steps=9, slow_rank=1, traces=False)
    old = (folder / "mpi_profile.90001.3").read_bytes()
    write_mpi_job(folder, ranks=4, steps=4, slow_rank=2, traces=False)
    (folder / "mpi_profile.90001.3").write_bytes(old)
    traces = load(folder)
    (problem,) = traces.problems.itertuples()
    assert (problem.kind, problem.rank) == ("stale", 3)
    assert "rank 0's table lists" in problem.detail
    assert [trace.profile.stale for trace in traces.values()] == [False, False, False, True]
    routines = mpi_routines(traces)
    assert sorted(set(routines["rank"])) == [0, 1, 2]
    assert "ranks 3 of job 90001 are left out: they are from another run" in routines.attrs["note"]
    assert sorted(set(mpi_routines(traces, stale=True)["rank"])) == [0, 1, 2, 3]
    table = mpi_ranks(traces).set_index("rank")
    assert table.stale.tolist() == [False, False, False, True]
    assert table.key.tolist() == [0, 1, 2, -1]
    # The table in rank 0's file is from the right run for all ranks.
    assert mpi_imbalance(traces).straggler_rank.tolist() == [2]


def test_every_cut_gives_the_part_that_is_there_and_says_so(job, tmp_path):
    for rank in (0, 1):
        full = (job / f"mpi_profile.90001.{rank}").read_bytes()
        end = len(full.rstrip(b"\n"))
        for size in [*range(27, end, 41), end - 1]:
            path = tmp_path / f"cut{size}" / f"mpi_profile.90001.{rank}"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(full[:size])
            traces = load(path)
            assert "truncated" in kinds(traces), (rank, size)
            mpi_routines(traces), mpi_ranks(traces), mpi_imbalance(traces)


def test_rank_zeros_table_stands_in_for_files_that_are_not_there(job):
    traces = load(job / "mpi_profile.90001.0")
    table = mpi_ranks(traces)
    assert table["rank"].tolist() == [0, 1, 2, 3]
    assert "routine tables of ranks 0 of 4" in table.attrs["note"]
    others = load([job / "mpi_profile.90001.1", job / "mpi_profile.90001.3"])
    table = mpi_ranks(others)
    assert table["rank"].tolist() == [1, 3]
    assert set(table.source) == {"file"}
    assert "no table of all ranks" in table.attrs["note"]


@pytest.mark.parametrize(
    ("old", "new", "kind", "count", "words"),
    [
        # Messages of two gigabytes are missing from the byte counts.
        ("MPI_Isend                       100 ", "MPI_Isend                       102 ",
         "overflow", 2, "MPI_Isend"),
        # Values that no program can reach are unknown.
        ("MPI_Waitall                     100            0.0          1.500",
         "MPI_Waitall                     100            0.0         1.5e13",
         "overflow", 1, "1e12"),
        ("20480 KBytes", "inf KBytes", "overflow", 1, "unknown"),
        # Lines in an unknown form are counted.
        ("user cpu time", "a new kind of time", "skipped", 1, "line 12"),
    ],
    ids=["two gigabytes", "huge time", "infinite size", "unknown line"],
)  # fmt: skip
def test_what_a_profile_does_not_tell_is_reported(tmp_path, old, new, kind, count, words):
    (tmp_path / "mpi_profile.7.0").write_text(OLD.replace(old, new))
    (problem,) = load(tmp_path).problems.itertuples()
    assert (problem.kind, problem.count) == (kind, count)
    assert words in problem.detail


def test_several_profiles_in_one_file_and_compressed_ones(job, tmp_path):
    parts = [(job / f"mpi_profile.90001.{rank}").read_bytes() for rank in range(4)]
    (tmp_path / "all.txt").write_bytes(b"".join(parts))
    assert load(tmp_path / "all.txt").ranks == [0, 1, 2, 3]
    (tmp_path / "mpi_profile.90001.2.gz").write_bytes(gzip.compress(parts[2]))
    packed = load(tmp_path / "mpi_profile.90001.2.gz")
    assert (packed.ranks, packed[2].job) == ([2], "90001")


def test_beside_files_of_other_formats(job, tmp_path, write):
    for file in job.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    write([event()], "rank-9.json", distributedInfo={"rank": 9})
    write("", "mpi_profile.90001.17")
    write("Data for MPI people\n", "notes.txt")
    traces = load(tmp_path)
    assert traces.formats == ["kineto", "mpi-profile"]
    assert traces.format == "mixed"
    assert traces.ranks == [0, 1, 2, 3, 9]
    assert kinds(traces) == ["empty", "foreign"]
    assert traces[1].profile.rank == 1
    assert len(traces[1].events) == 0
    assert traces[9].profile is None
    assert load(tmp_path, format="mpi-profile").ranks == [0, 1, 2, 3]
    summary = traces.summary().set_index("rank")
    assert summary.job[:4].tolist() == ["90001"] * 4
    assert summary.host[:4].tolist() == ["node01", "node01", "node02", "node02"]


@pytest.mark.parametrize("text", ["Data for MPI rank x of 2:\n", "Data for MPI ra"])
def test_what_is_no_profile_is_refused(tmp_path, text):
    (tmp_path / "mpi_profile.1.0").write_text(text)
    with pytest.raises(hw.TraceError):
        load(tmp_path / "mpi_profile.1.0")


# --- with a time line -----------------------------------------------------------------------------


def test_profile_and_time_line_of_a_rank_are_one_rank(tmp_path):
    folder = tmp_path / "job"
    truth = write_mpi_job(folder, ranks=4, steps=3, hosts=2)
    traces = load(folder)
    assert traces.ranks == [0, 1, 2, 3]
    assert traces.problems.empty
    assert repr(traces).startswith("<TraceSet mpi-trace · 4 ranks · ")
    alone = load(folder / "90001.trc")
    assert traces.events().equals(alone.events())
    summary = traces.summary()
    assert [path.rsplit("/", 1)[1] for path in summary.file] == ["90001.trc"] * 4
    assert [path.rsplit("/", 1)[1] for path in summary.profile] == [
        f"mpi_profile.90001.{rank}" for rank in range(4)
    ]
    assert summary.host.tolist() == ["node01", "node01", "node02", "node02"]
    assert summary.comm_s.tolist() == pytest.approx(truth["comm_s"], abs=0.0005)
    # Calls count once: those of a run from profiles, those of a window from the timeline.
    profiles = load(sorted(folder.glob("mpi_profile*")))
    assert (
        mpi_routines(traces).drop(columns="key").equals(mpi_routines(profiles).drop(columns="key"))
    )
    window = (0, traces.end_ns // 2)
    assert mpi_routines(traces, window=window).equals(mpi_routines(alone, window=window))
    assert mpi_ranks(traces).key.tolist() == [0, 1, 2, 3]
    # A subset of ranks has both files too, and so do ranks loaded from a store.
    for again in (load(folder, ranks=[2]), load(traces.save(tmp_path / "store"))):
        assert again[2].profile.routines.equals(traces[2].profile.routines)
        assert again[2].profile_path == str(folder / "mpi_profile.90001.2")


def test_problems_of_a_profile_beside_a_time_line_are_its_ranks(tmp_path):
    folder = tmp_path / "job"
    write_mpi_job(folder, ranks=4, steps=3)
    cut, left = folder / "mpi_profile.90001.1", folder / "mpi_profile.90001.2"
    cut.write_text(cut.read_text()[:700])
    write_mpi_job(tmp_path / "other", ranks=4, steps=9)
    left.write_bytes((tmp_path / "other" / left.name).read_bytes())
    traces = load(folder)
    assert traces.ranks == [0, 1, 2, 3]
    result = {(row.rank, row.kind, row.file) for row in traces.problems.itertuples()}
    assert result == {(1, "truncated", str(cut)), (2, "stale", str(left))}
    # Files of another run are ignored, but not the timeline next to them.
    sources = mpi_routines(traces).groupby("key").source.first()
    assert sources.tolist() == ["profile", "profile", "trace", "profile"]
    assert set(load(folder, ranks=[2]).problems.kind) == {"stale"}


def test_profiles_of_another_job_beside_a_time_line_stay_apart(tmp_path):
    write_mpi_job(tmp_path / "job", ranks=2, steps=3)
    write_mpi_job(tmp_path / "job", ranks=2, steps=3, traces=False, job=90002)
    traces = load(tmp_path / "job")
    assert traces.summary()[["job", "format", "stated_rank"]].values.tolist() == [
        ["90001", "mpi-trace", 0], ["90001", "mpi-trace", 1],
        ["90002", "mpi-profile", 0], ["90002", "mpi-profile", 1],
    ]  # fmt: skip
    assert traces.problems.detail.tolist() == [
        f"states rank {rank}, as 90001.trc does, and belongs to job 90002, not 90001;"
        f" kept as rank {rank + 2}"
        for rank in range(2)
    ]


def test_a_profile_does_not_take_the_rank_of_a_trace_with_events(job, tmp_path, write):
    (tmp_path / "mpi_profile.90001.0").write_bytes((job / "mpi_profile.90001.0").read_bytes())
    write([event()], "rank-0.json", distributedInfo={"rank": 0})
    assert [trace.format for trace in load(tmp_path).values()] == ["kineto", "mpi-profile"]


# --- summaries ------------------------------------------------------------------------------------


def test_summaries_of_profiles_have_what_profiles_hold(tmp_path):
    first = OLD
    second = first.split("Communication summary")[0].replace("rank 0", "rank 1")
    second = second.replace("time = 1.510", "time = 1.800").replace("20480", "10240")
    (tmp_path / "mpi_profile.0").write_text(first)
    (tmp_path / "mpi_profile.1").write_text(second)
    traces = load(tmp_path)
    message = [repr(trace).replace("\u202f", " ") for trace in (traces, traces[1])]
    assert "2 ranks · totals: 1.51 s to 1.80 s in MPI of 4.00 s · " in message[0]
    assert message[1].startswith("<Trace rank 1: totals: 1.80 s in MPI of 4.00 s, ")
    summary = traces.summary()
    columns = ["events", "start_ns", "end_ns", "comm_s", "elapsed_s"]
    assert summary[columns].values.tolist() == [[0, -1, -1, 1.51, 4.0], [0, -1, -1, 1.8, 4.0]]
    shown = list(summary.displayed_columns())
    assert {"comm_s", "elapsed_s"} <= set(shown)
    assert {"events", "start_ns", "end_ns", "profile"}.isdisjoint(shown)
    for text in (repr(traces), traces._repr_html_(), repr(summary)):
        assert "0 events" not in text
        assert "0.000\u202fms" not in text
        assert "start_ns" not in text


def test_summaries_beside_events_have_no_times_for_profiles(job, tmp_path, write):
    (tmp_path / "mpi_profile.90001.1").write_bytes((job / "mpi_profile.90001.1").read_bytes())
    write([event("op", 5.0, 2.0)], "rank-0.json", distributedInfo={"rank": 0})
    traces = load(tmp_path)
    summary = traces.summary()
    assert summary[["events", "start_ns", "end_ns"]].values.tolist() == [[1, 0, 2000], [0, -1, -1]]
    assert summary.comm_s.isna().tolist() == [True, False]
    assert "1 events · 0.002\u202fms" in repr(traces)


def test_two_jobs_of_profiles_alone(tmp_path):
    for job in (2, 1):
        write_mpi_job(tmp_path / "jobs", ranks=2, steps=3, traces=False, job=job)
    traces = load(tmp_path / "jobs")
    assert traces.summary()[["rank", "job", "stated_rank"]].values.tolist() == [
        [0, "1", 0], [1, "1", 1], [2, "2", 0], [3, "2", 1],
    ]  # fmt: skip
    assert "2 ranks" not in repr(traces)
