"""Databases are read by column, and malicious ones end with an error."""

import contextlib
import gzip
import os
import shutil
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest
from support.nsight_export import write_export

import hta_widgets as hw
from hta_widgets import TraceError
from hta_widgets.readers.sqlite import Database

ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r) select n from r"
BIG = 9_007_199_254_740_993  # 2**53 + 1, not representable in float64


def database(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


@pytest.fixture
def export(tmp_path):
    return write_export(tmp_path / "report.sqlite")


def load(path):
    return hw.load(path, cache=False, progress=False)


def test_columns_are_exact_integers_of_many_queries(tmp_path):
    path = database(
        tmp_path / "a.db",
        "create table t (a integer, b integer)",
        f"insert into t {ENDLESS.replace('select n from', f'select n + {BIG}, null from')}"
        " limit 140000",
        "delete from t where rowid % 3 = 0",
        "update t set rowid = 4000000000000000000 where rowid = 140000",
    )
    with Database(path) as opened:
        columns = opened.integers("t", "a b c", missing=-7)
    rowid = np.arange(1, 140_001)
    expected = rowid[rowid % 3 != 0] + BIG
    assert np.array_equal(columns["a"], expected)
    assert columns["rowid"][[0, -1]].tolist() == [1, 4_000_000_000_000_000_000]
    assert set(columns["b"]) == set(columns["c"]) == {-7}


@pytest.mark.parametrize("value", ["'1,2'", "'abc'", "''", "1.5", "1e300", "x'00ff'", "'1 2'"])
def test_rows_of_other_types_are_left_out(tmp_path, value):
    path = database(
        tmp_path / "a.db",
        "create table t (a integer, b integer)",
        f"insert into t values (1, 2), (3, {value}), (5, null), (9223372036854775807, 6)",
    )
    with Database(path) as opened:
        columns = opened.integers("t", "a b")
        assert opened.skipped == {"t": 1}
        assert opened.integers("t", "a", optional="b")["b"].tolist() == [2, -1, -1, 6]
    assert columns["a"].tolist() == [1, 5, (1 << 63) - 1]
    assert columns["b"].tolist() == [2, -1, 6]


@pytest.mark.parametrize("value", ["7.0", "'7'"])
def test_whole_numbers_are_integers_whatever_their_type(tmp_path, value):
    path = database(
        tmp_path / "a.db",
        "create table t (a, b)",
        f"insert into t values ({value}, {value}), (8, 'x'), ('x', 9)",
    )
    with Database(path) as opened:
        columns = opened.integers("t", "a", optional="b")
        assert opened.skipped == {"t": 1}
    assert (columns["a"].tolist(), columns["b"].tolist()) == ([7, 8], [7, -1])


def test_views_are_not_read(tmp_path):
    path = database(
        tmp_path / "a.db", "create table StringIds (id integer)",
        f"create view CUPTI_ACTIVITY_KIND_KERNEL as {ENDLESS}",
    )  # fmt: skip
    with pytest.raises(TraceError, match="without events"):
        load(path)


def damage(path, start, length):
    text = bytearray(path.read_bytes())
    text[start : start + length] = os.urandom(length)
    path.write_bytes(text)


@pytest.mark.parametrize("case", ["cut", "pages", "header", "schema", "name", "generated",
                                  "without rowid", "virtual", "long text"])  # fmt: skip
def test_hostile_databases_end_soon(export, case):
    runtime = "CUPTI_ACTIVITY_KIND_RUNTIME"
    match case:
        case "cut":
            export.write_bytes(export.read_bytes()[:30_000])
        case "pages":
            damage(export, 8192, export.stat().st_size - 8192)
        case "header":
            damage(export, 16, 80)
        case "schema":
            damage(export, 100, 3900)
        case "name":
            text = export.read_bytes().replace(
                b"CREATE TABLE NVTX_EVENTS", b"CREATX TABLE NVTX_EVENTS"
            )
            export.write_bytes(text.replace(b"NVTX_EVENTS", b"NVTX_\xc5VENTS"))
        case "generated":
            database(
                export, f"drop table {runtime}",
                f"create table {runtime} (start integer, end as (length(zeroblob(400000000))))",
                f"insert into {runtime} values (1)",
            )  # fmt: skip
        case "without rowid":
            database(
                export, f"drop table {runtime}",
                f"create table {runtime} (start integer primary key, end integer) without rowid",
            )  # fmt: skip
        case "virtual":
            database(
                export, f"drop table {runtime}", f"create virtual table {runtime} using fts5(start)"
            )  # fmt: skip
        case "long text":
            database(
                export, "update StringIds set value = hex(zeroblob(200000000)) where id = 1"
            )  # fmt: skip
    began = time.monotonic()
    with contextlib.suppress(TraceError):
        assert len(load(export)) == 2
    assert time.monotonic() - began < 30


def test_a_query_takes_a_limited_number_of_steps(tmp_path):
    path = database(tmp_path / "a.db", "create table t (a integer)", "insert into t values (1)")
    with Database(path) as opened, pytest.raises(TraceError, match="too long to read"):
        opened.rows("t", "a", where=f"a in ({ENDLESS})")


@pytest.mark.parametrize("name", ["a?b#c%20.sqlite", "späť 'x'.sqlite", "a.sqlite.gz"])
def test_names_and_compression(export, name):
    path = export.with_name(name)
    text = export.read_bytes()
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    traces = load(path)
    assert len(traces) == 2
    assert b'"iteration 5"' in b"".join(
        record for _, record in traces[0].source.records(np.arange(len(traces[0].source)))
    )


def test_a_write_ahead_log_is_read_or_missed(export, tmp_path):
    with closing(sqlite3.connect(export)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("delete from CUPTI_ACTIVITY_KIND_MEMCPY")
        connection.commit()
        copy = tmp_path / "copy" / "report.sqlite"
        copy.parent.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(f"{export}{ending}", f"{copy}{ending}")
    assert "gpu_memcpy" not in load(copy)[0].events.category.tolist()
    copy.with_name("report.sqlite-wal").unlink()
    traces = load(copy)
    assert "gpu_memcpy" in traces[0].events.category.tolist()
    assert traces.problems.detail.str.contains("without its -wal file").any()


def test_loading_can_be_cancelled(export):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hw.load(export, cache=False, progress=stop)


def test_a_loaded_file_is_not_needed_again(export):
    trace = load(export)[0]
    export.unlink()
    kernel = trace.events.index[trace.events.category == "kernel"][0]
    assert trace.args(kernel)["grid"] == [128, 1, 1]


def test_real_numbers_have_all_digits_and_other_values_are_none(tmp_path):
    values = (0.1, 1e-12 / 7, -1e18 / 3, 1 / 3, 7, None, "0.5", "x", b"1")
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table t (at, value)")
        database.executemany("insert into t values (?, ?)", enumerate(values))
        database.execute("insert into t values ('no time', 2.0)")
        database.commit()
    with Database(path) as database:
        columns = database.integers("t", "at", reals="value lacking")
        assert database.skipped["t"] == 1
        lacking = database.integers("none", "at", reals="value")
    assert columns["at"].tolist() == list(range(9))
    assert columns["value"][:5].tolist() == [*values[:5]]
    assert np.isnan(columns["value"][5:]).all()
    assert np.isnan(columns["lacking"]).all()
    assert lacking["value"].dtype == np.float64


def test_functions_of_queries_are_in_sqlite_of_2018(export, monkeypatch):
    functions = set()

    class Connection(sqlite3.Connection):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            self.set_authorizer(note_function)

    def note_function(action, _, name, *_names):
        if action == sqlite3.SQLITE_FUNCTION:
            functions.add(name)
        return sqlite3.SQLITE_OK

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Connection))
    assert len(load(export)[0].counter_table.value)
    assert functions <= {"coalesce", "count", "glob", "group_concat", "printf", "typeof"}
