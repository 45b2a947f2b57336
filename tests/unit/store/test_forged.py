"""Stores with false values but valid checksums: calls succeed or raise `TraceError`."""

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from fuzz.inputs import samples
from fuzz.journey import journey
from support.examples import ALL
from support.small import event

import hta_widgets as hw
from hta_widgets.store import files
from hta_widgets.store.checks import RULES
from hta_widgets.store.files import FileFrame, TextColumn
from hta_widgets.tiles.stored_lanes import stored_lanes

pytestmark = pytest.mark.slow

#: Share of the charts that are drawn; their analyses already refuse most forgeries.
DRAWN = 1.0 if ALL else 0.2
TOO_LOW, TOO_HIGH = -(2**31), 2**31 - 1
#: Columns whose length sets the length of others or is not checked.
UNCOUNTED = ("lanes.", "args.", "comm.record", "records.first")
#: Misplaced JSON.
NASTY = (None, -1, 2**62, 2**70, 1.5, "x", [], {}, [[]], True)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    files_there = {**samples()["kineto"], **samples()["mpi-trace"]}
    for name, text in files_there.items():
        if name == "rank-0.json":
            full = json.loads(text)
            full["traceEvents"].append(event("cpu_op", "short", 700, 700, pid=10))
            text = json.dumps(full).encode()  # noqa: PLW2901
        (folder / name).write_bytes(text)
    return Path(hw.load(folder, cache=False, progress=False).save(folder / "a.store"))


class Forged:
    """A copy of a store whose values can be changed; `write` updates its checksums."""

    def __init__(self, store, target, place=0):
        shutil.copytree(store, target)
        self.store = target
        self.body = files.read_manifest(target / "store.json")
        self.entry = self.body["ranks"][place]
        opened = files.ArrowFile(target / self.entry["file"], FileFrame(*self.entry["frame"]))
        self.facts = json.loads(json.dumps(opened.facts))
        self.columns = {}
        for name, (dtype, *_) in opened._specs.items():
            if dtype == "text":
                self.columns[name] = TextColumn()
                for text in opened.texts(name):
                    self.columns[name].add(text)
            else:
                self.columns[name] = np.array(opened.numbers(name))

    def write(self):
        path = self.store / self.entry["file"]
        self.entry["frame"] = list(files.write_columns(path, self.columns, self.facts))
        self.write_manifest()

    def write_manifest(self):
        (self.store / "store.json").write_bytes(files.dump_manifest(self.body))


def column_of(store, name):
    """Return a rank in which the named column has values, and the column."""
    for trace in hw.load(store).values():
        stored = trace._stored
        values = stored.file.numbers(name) if stored.has(name) else ()
        if len(values):
            return trace, values
    raise AssertionError(f"no rank has values of {name}")


def test_rules_name_all_columns_of_numbers(store):
    stored = [trace._stored for trace in hw.load(store).values()]
    result = {
        name for item in stored for name, (dtype, *_) in item.file._specs.items() if dtype != "text"
    }
    assert result == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_false_values_of_a_column_are_refused(name, store, tmp_path):
    trace, values = column_of(store, name)
    place = hw.load(store).ranks.index(trace.rank)
    rule = RULES[name]
    forgeries = {"type": np.zeros(len(values), "i8" if rule.kinds == "f" else "f8")}
    if not name.startswith(UNCOUNTED):
        forgeries["length"] = np.append(values, values[-1:])
    if rule.low is not None and rule.kinds != "u":
        forgeries["low"] = np.where(np.arange(len(values)) == 0, TOO_LOW, values.astype("i8"))
    if rule.limit is not None:
        last = np.arange(len(values)) == len(values) - 1
        forgeries["high"] = np.where(last, TOO_HIGH, values.astype("i8"))
    if rule.ascending and len(np.unique(values)) > 1:
        forgeries["order"] = values[::-1].copy()
    # In `make test`, one of the forgeries goes through some of the calls, in rotation.
    turn = list(RULES).index(name)
    traveller = list(forgeries)[turn % len(forgeries)]
    for what, forgery in forgeries.items():
        if rule.kinds == "u" and what == "high":
            forgery = forgery.astype("u4")  # noqa: PLW2901
        forged = Forged(store, tmp_path / what, place)
        forged.columns[name] = forgery
        forged.write()
        stored = hw.load(forged.store)[trace.rank]._stored
        with pytest.raises(hw.TraceError, match=f"column {name} "):
            stored.numbers(name)
        if ALL or what == traveller:
            assert journey(forged.store, tmp_path, turn, 0.05, DRAWN) == []


def leaves(value, path=()):
    """Yield the path of each JSON value, including containers."""
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(part, dict | list):
            yield from leaves(part, (*path, key))
        else:
            yield (*path, key)


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def args_of(traces):
    return {rank: [trace.args(row) for row in range(len(trace))] for rank, trace in traces.items()}


@pytest.fixture
def cached(store, tmp_path, monkeypatch):
    """A file with a record that has to be repaired, and its cache entry."""
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "merged.json"
    hw.export_trace(hw.load(store), path)
    path.write_text(path.read_text().replace('"0x55002000"', "NaN", 1))
    monkeypatch.setattr("hta_widgets.readers.load._MIN_CACHED_BYTES", 0)
    hw.load(path)
    (entry,) = (tmp_path / "cache").glob("*.trace-cache")
    return path, entry


def load_forged(path, entry, forged):
    """Load a file whose cache entry is a forged store."""
    forged.write()
    shutil.rmtree(entry, ignore_errors=True)
    shutil.copytree(forged.store, entry)
    return hw.load(path)


@pytest.mark.parametrize(
    ("name", "shift"),
    [
        ("starts", 10**9),
        ("starts", -(10**9)),
        ("ends", -(10**9)),
        ("first_records", 1),
        ("first_records", -1),
        ("first_records", 10**9),
        ("odd_counts", 1),
        ("odd_spans", 10**9),
        ("odd_spans", -(10**9)),
    ],
)
def test_a_file_is_read_again_if_positions_in_its_cache_contradict(cached, tmp_path, name, shift):
    path, entry = cached
    args = args_of(hw.load(path, cache=False))
    forged = Forged(entry, tmp_path / "forged")
    assert len(forged.columns[f"source.{name}"])
    forged.columns[f"source.{name}"] += shift
    assert args_of(load_forged(path, entry, forged)) == args


def test_false_positions_of_records_in_a_cache_are_not_used(cached, tmp_path):
    path, entry = cached
    args = args_of(hw.load(path, cache=False))
    forged = Forged(entry, tmp_path / "forged")
    original = {name: values for name, values in forged.columns.items() if name[:7] == "source."}
    assert len(original) == 15
    for count, (name, values) in enumerate(original.items()):
        forgeries = (values - 10**9, values + 10**9, values[::-1], values[1:], values / 2)
        # In `make test`, each column takes one or two forgeries, in rotation.
        for forgery in forgeries if ALL else forgeries[count % 3 :: 3]:
            forged.columns[name] = forgery
            traces = load_forged(path, entry, forged)
            with suppress(hw.TraceError):
                hw.analysis.collectives(traces)
            for rank, trace in traces.items():
                with suppress(hw.TraceError):
                    assert [trace.args(row) for row in range(len(trace))] == args[rank]
        forged.columns[name] = values


TEXTS = ("names", "categories", "tracks", "flow_kinds", "counter_series", "metadata",
         "metadata_text", "profile", "comm.values", "instants.scope.values", "asyncs.pid.values",
         "records.block")  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_false_texts_are_refused_or_answered(name, store, tmp_path):
    texts = [json.dumps(value).encode() for value in NASTY]
    texts += [b"\xff", b"[" * 10_000, b"1, 2", b"", None]
    turn = TEXTS.index(name) % 3
    for count, text in enumerate(texts if ALL else texts[turn::3]):
        forged = Forged(store, tmp_path / str(count))
        forged.columns[name] = TextColumn()
        if text is not None:
            forged.columns[name].add(text)
        forged.write()
        assert journey(forged.store, tmp_path, seed=count, share=0.02) == []


def test_false_fields_of_tracks_are_refused_or_answered(store, tmp_path):
    tracks = json.loads(bytes(Forged(store, tmp_path / "a").columns["tracks"].data))
    for place in range(len(tracks[0])):
        # In `make test`, each field takes a third of the values, in rotation.
        for count, nasty in enumerate(NASTY if ALL else NASTY[place % 3 :: 3]):
            shutil.rmtree(tmp_path / "a")
            forged = Forged(store, tmp_path / "a")
            changed = [[*tracks[0][:place], nasty, *tracks[0][place + 1 :]], *tracks[1:]]
            forged.columns["tracks"] = TextColumn()
            forged.columns["tracks"].add(json.dumps(changed).encode())
            forged.write()
            assert journey(forged.store, tmp_path, seed=count, share=0.02) == []


def test_false_facts_of_lanes_are_not_used(store, tmp_path):
    draw = random.Random(0)
    forged = Forged(store, tmp_path / "a")
    original = json.dumps(forged.facts)
    for path in list(leaves(forged.facts))[1:]:
        forged.facts = json.loads(original)
        put(forged.facts, path, draw.choice(NASTY))
        forged.write()
        table = next(iter(hw.load(forged.store).values())).table
        for lane in stored_lanes(table).values():
            at = lane.long_events(*lane.spans.extent, 1)
            lane.rows_of(at) if lane.rows is not None else None
            lane.spans.measure(np.linspace(*lane.spans.extent, 9).astype(int))


def test_false_values_of_a_manifest_are_refused_or_answered(store, tmp_path):
    forged = Forged(store, tmp_path / "a")
    original = json.dumps(forged.body)
    for count, path in enumerate(list(leaves(forged.body))[1:]):
        # In `make test`, each field takes a third of the values; one goes through more calls.
        values = NASTY if ALL else NASTY[count % 3 :: 3]
        longest = count // 3 % len(values)
        for place, nasty in enumerate(values):
            forged.body = json.loads(original)
            put(forged.body, path, nasty)
            forged.write_manifest()
            share = 0.05 if place == longest else 0
            assert journey(forged.store, tmp_path, seed=count, share=share) == []
