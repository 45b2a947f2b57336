"""A set that was saved and loaded gives the same results; a damaged one raises an error."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples
from support.random_job import write_job
from support.same_sets import assert_same, assert_same_analyses, assert_same_exports

import hta_widgets as hw
from hta_widgets.live.job import TileEngine


@settings(max_examples=examples(8))
@given(seed=st.integers(0, 10**6), ranks=st.integers(1, 3), fitted=st.booleans())
def test_saved_and_loaded_it_is_the_same(seed, ranks, fitted):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job").mkdir()
        traces = hw.load(write_job(folder / "job", seed, ranks), cache=False, progress=False)
        if fitted:
            traces = traces.with_clock("fitted")
        again = hw.load(traces.save(folder / "job.store"), progress=False)
        assert_same(traces, again)
        assert_same_analyses(traces, again)
        assert_same_exports(traces, again, folder)
        assert_same(traces.with_clock("host"), again.with_clock("host"))
        middle = traces.end_ns // 2
        assert_same(traces.subset(start_ns=middle), again.subset(start_ns=middle))
        assert TileEngine(again).scene() == TileEngine(traces).scene()


@settings(max_examples=examples(4))
@given(seed=st.integers(0, 10**6))
def test_a_part_of_a_set_is_saved_as_the_part_that_it_is(seed):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job").mkdir()
        full = hw.load(write_job(folder / "job", seed), cache=False, progress=False)
        part = full.subset(start_ns=full.end_ns // 3, end_ns=full.end_ns // 2)
        again = hw.load(part.save(folder / "part.store"), progress=False)
        assert_same(part, again)
        assert_same_exports(part, again, folder)
        # A trace loaded from a store can be saved again, even over that store.
        again.save(folder / "part.store")
        assert_same(part, hw.load(folder / "part.store", progress=False))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    (folder / "job").mkdir()
    traces = hw.load(write_job(folder / "job", 5, 1, 40, 4), cache=False, progress=False)
    path = Path(traces.save(folder / "job.store"))
    return traces, path, {file: file.read_bytes() for file in path.iterdir()}


@settings(max_examples=examples(150))
@given(st.data())
def test_what_is_damaged_is_an_error_and_never_another_answer(stored, data):
    traces, path, files = stored
    for file, content in files.items():
        file.write_bytes(content)
    file = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[file])
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans(), label="cut"):
        file.write_bytes(content[:at])
    else:
        content[at] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
    try:
        again = hw.load(path, progress=False)
        assert_same(traces, again)
    except hw.TraceError as error:
        text = error
    else:
        return
    assert path in {Path(text.path), Path(text.path).parent}
    assert text.remedy


def test_damage_is_found_in_every_column(stored):
    """The test above would pass if nothing were ever read; most of a file is columns."""
    traces, path, files = stored
    for file, content in files.items():
        file.write_bytes(content)
    (file,) = path.glob("*.arrow")
    rng = np.random.default_rng(1)
    result = 0
    for at in rng.integers(0, len(files[file]), 60).tolist():
        content = bytearray(files[file])
        content[at] ^= 0xFF
        file.write_bytes(content)
        try:
            assert_same(traces, hw.load(path, progress=False))
        except hw.TraceError:
            result += 1
    assert result > 30
