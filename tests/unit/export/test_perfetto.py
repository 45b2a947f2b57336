"""An archive for Perfetto: one file per rank, and offsets that put times on one axis."""

import json
import tarfile

import pytest
from support import small

import hta_widgets as hw
from hta_widgets import cli
from hta_widgets.export.traces.perfetto import export_perfetto


def write_job(tmp_path, offsets):
    """Write two or more ranks that leave each collective together, with clocks that differ."""
    ranks = [
        [small.nccl(k * 9_000 + offset, k * 9_000 + offset + 8_000) for k in range(5)]
        for offset in offsets
    ]
    folder = tmp_path / "job"
    folder.mkdir()
    return small.write(folder, *ranks)


def read_archive(path):
    with tarfile.open(path) as archive:
        contents = {
            member.name: json.loads(archive.extractfile(member).read()) for member in archive
        }
    return contents.pop("perfetto_manifest.json")["perfetto_manifest"], contents


def ends_ns(document, entry):
    """Return the ends of a rank's kernels on the timeline defined by the manifest."""
    offset = entry.get("clocks", {}).get("offset_ns", 0)
    work = [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
    return [round((event["ts"] + event["dur"]) * 1000) + offset for event in work]


@pytest.mark.parametrize("offsets", [(0, 50_000), (70_000, 0, 20_000), (3, 0)])
def test_offsets_put_the_ends_of_collectives_together(tmp_path, offsets, capsys):
    out = tmp_path / "job.tar"
    assert (
        cli.main(["export", str(write_job(tmp_path, offsets)), "-o", str(out), "--perfetto"]) == 0
    )
    assert "on the fitted clock" in capsys.readouterr().out
    manifest, files = read_archive(out)
    assert manifest["version"] == 1
    assert [entry["path"] for entry in manifest["files"]] == [*files]
    assert all(entry.get("clocks", {}).get("offset_ns", 0) >= 0 for entry in manifest["files"])
    ends = [ends_ns(files[entry["path"]], entry) for entry in manifest["files"]]
    assert all(times == ends[0] for times in ends)
    references = [entry["path"] for entry in manifest["files"] if "clocks" not in entry]
    assert {
        entry["clocks"]["sync_to"]["file"] for entry in manifest["files"] if "clocks" in entry
    } == (set(references))
    assert len(references) == 1


def test_ranks_with_asyncs_only_have_files_and_offsets(tmp_path):
    def asyncs(start):
        return [
            {"ph": phase, "cat": "c", "name": "n", "id": 1, "pid": 1, "tid": 1, "ts": time}
            for phase, time in (("b", start), ("e", start + 5))
        ]

    small.write(tmp_path, [*asyncs(30)], base_ns=1_000_000)
    (tmp_path / "rank-1.json").write_text(
        json.dumps({"baseTimeNanoseconds": 1_004_000, "traceEvents": asyncs(28)})
    )
    traces = small.read(tmp_path)
    report = export_perfetto(traces, tmp_path / "job.tar")
    manifest, files = read_archive(tmp_path / "job.tar")
    assert report.ranks == (0, 1)
    assert [len(document["traceEvents"]) for document in files.values()] == [2, 2]
    first, second = manifest["files"]
    assert (first.get("clocks"), second["clocks"]["offset_ns"]) == (None, 4_000)


def test_files_keep_their_records_and_the_window(tmp_path):
    job = write_job(tmp_path, (0, 50_000))
    out = tmp_path / "job.tar"
    window = ["--start", "20us", "--end", "26us", "--ranks", "0", "--scrub"]
    assert cli.main(["export", str(job), "-o", str(out), "--perfetto", *window]) == 0
    manifest, files = read_archive(out)
    assert [entry["machine"]["name"] for entry in manifest["files"]] == ["rank 0"]
    assert manifest["attributes"] == {"hta_widgets.clock": "recorded"}
    (kernel,) = [event for event in files["rank-0.json"]["traceEvents"] if event["ph"] == "X"]
    assert (kernel["ts"], kernel["dur"]) == (18, 8)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["-o", "{tmp}/job.json"], "is a .tar file"),
        (["-o", "{tmp}/job.tar", "--fitted-clock"], "--perfetto writes offsets"),
        (["-o", "{tmp}/job.tar", "--query", "stream == 99"], "nothing to export"),
    ],
)
def test_what_goes_wrong(tmp_path, capsys, more, message):
    words = [word.format(tmp=tmp_path) for word in more]
    assert cli.main(["export", str(write_job(tmp_path, (0, 9))), "--perfetto", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "job.tar").exists()


def test_times_of_files_that_count_from_another_base(tmp_path):
    """Rank 1's file counts from 1 ms later, but its kernel runs at the same time as rank 0's."""
    for rank, (base_ns, start) in enumerate(((small.EPOCH_NS, 1_005_000),
                                              (small.EPOCH_NS + 1_000_000, 5_000))):  # fmt: skip
        folder = tmp_path / f"r{rank}"
        folder.mkdir()
        small.write(folder, [small.kernel(start, start + 10)], base_ns=base_ns)
    paths = {rank: tmp_path / f"r{rank}" / "rank-0.json" for rank in (0, 1)}
    traces = hw.load(paths, cache=False, progress=False)
    export_perfetto(traces, tmp_path / "job.tar")
    manifest, files = read_archive(tmp_path / "job.tar")
    ends = [ends_ns(files[entry["path"]], entry) for entry in manifest["files"]]
    assert ends[0] == ends[1]
