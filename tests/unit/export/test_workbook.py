"""Tables written to a workbook and read back."""

import sys

import pytest
from support.small import call, event, kernel, load

import hta_widgets as hw
from hta_widgets.export.workbook import save_workbook

FORMULA = '=HYPERLINK("http://x")'


@pytest.fixture
def traces(tmp_path):
    events = [
        event("cpu_op", FORMULA, 10, 20, pid=10, tid=1),
        call(12, 14, 1),
        kernel(100, 130, launch=1, name="bad\x01name"),
    ]
    return load(tmp_path, events)


def test_a_workbook_has_a_sheet_for_each_table_with_rows(traces, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    sheets = save_workbook(traces, tmp_path / "tables.xlsx")
    book = openpyxl.load_workbook(tmp_path / "tables.xlsx")
    assert book.sheetnames == ["tables", *sheets]
    header, row = book["operators"].iter_rows(max_row=2)
    values = dict(zip([c.value for c in header], row, strict=True))
    assert (values["name"].value, values["name"].data_type) == (FORMULA, "s")
    assert values["device_total_ns"].value == 30
    contents = {name: (rows, note) for name, rows, note in book["tables"].values}
    assert contents["operators"][0] == 2  # including an operator from `load`
    assert contents["collectives"][0] == 0
    assert contents["collectives"][1]


@pytest.mark.parametrize(
    ("name", "message"), [("t.csv", "is a .xlsx file"), ("no/t.xlsx", "cannot be written")]
)
def test_a_workbook_is_written_under_its_name_only(traces, tmp_path, name, message):
    pytest.importorskip("openpyxl")
    with pytest.raises(hw.TraceError, match=message):
        save_workbook(traces, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_without_openpyxl_a_sentence_says_what_to_install(traces, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(hw.TraceError, match=r'pip install "hta_widgets\[xlsx\]"'):
        save_workbook(traces, tmp_path / "tables.xlsx")
