"""The fitted clock of a cached job is stored and never used for another job."""

import importlib
import json

import pytest
from support import small

import hta_widgets as hw
from hta_widgets import taxonomy
from hta_widgets.analysis.cross_rank import clock_fit
from hta_widgets.answers.job import on_view_clock
from hta_widgets.readers import cache

module = importlib.import_module("hta_widgets.readers.load")  # not the function `load`


@pytest.fixture(autouse=True)
def fits(tmp_path, monkeypatch):
    """Use a separate cache for files of any size; return the list of fitted jobs."""
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "the cache"))
    monkeypatch.setattr(module, "_MIN_CACHED_BYTES", 0)
    fitted = []
    original = clock_fit.clock_fit
    monkeypatch.setattr(
        clock_fit, "clock_fit", lambda traces: fitted.append(list(traces)) or original(traces)
    )
    return fitted


def write_job(folder, *offsets_us):
    """Write ranks that leave three collectives together, with clocks that differ by offsets."""
    folder.mkdir(exist_ok=True)
    ranks = [
        [small.nccl(k * 9_000 + offset, k * 9_000 + offset + 8_000) for k in range(3)]
        for offset in (1_000 * us for us in offsets_us)
    ]
    small.write(folder, *ranks)
    return folder


def offsets_us(folder):
    traces = on_view_clock(hw.load(folder))
    return traces.clock, [trace.clock_offset_ns // 1_000 for trace in traces.values()]


def kept_files():
    return sorted(cache.folder().glob("*/clock-*.json"))


@pytest.mark.parametrize(
    ("offsets", "expected"), [((0, 50), ("fitted", [0, 50])), ((0, 0), ("host", [0, 0]))]
)
def test_the_fit_is_kept(tmp_path, fits, offsets, expected):
    job = write_job(tmp_path / "job", *offsets)
    assert offsets_us(job) == expected
    assert fits
    fits.clear()
    assert offsets_us(job) == expected
    assert fits == []


def test_other_files_and_other_ranks_have_their_own_fit(tmp_path):
    job = write_job(tmp_path / "job", 0, 50, 90)
    assert offsets_us(job) == ("fitted", [0, 50, 90])
    later = on_view_clock(hw.load(job, ranks=[1, 2]))
    assert [trace.clock_offset_ns // 1_000 for trace in later.values()] == [0, 40]
    write_job(job, 0, 70, 80)
    assert offsets_us(job) == ("fitted", [0, 70, 80])


@pytest.mark.parametrize("text", ["", "[[1], 0]", "[[1, 2]]", '"fitted"', "[null, null]"])
def test_a_damaged_file_is_not_used(tmp_path, text):
    job = write_job(tmp_path / "job", 0, 50)
    offsets_us(job)
    (file,) = kept_files()
    file.write_text(text)
    assert offsets_us(job) == ("fitted", [0, 50])
    assert json.loads(file.read_text())[1] == 0


def test_nothing_is_kept_for_stores_and_other_rules(tmp_path, monkeypatch):
    job = write_job(tmp_path / "job", 0, 50)
    hw.load(job).save(tmp_path / "store")
    assert offsets_us(tmp_path / "store") == ("fitted", [0, 50])
    assert not list((tmp_path / "store").glob("clock*"))
    monkeypatch.setattr(taxonomy, "_added_rules", [])
    taxonomy.add("compute", "nothing is called so")
    assert offsets_us(job) == ("fitted", [0, 50])
    assert kept_files() == []
