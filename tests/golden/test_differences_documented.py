"""Check that the document on differences from HTA lists every tested difference."""

import importlib.util
import math
import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PAGES = sorted((HERE.parents[1] / "docs").glob("differences-*.md"))


def tables(module):
    """Return the difference tables in a test module, by name."""
    spec = importlib.util.spec_from_file_location(f"documented_{module}", HERE / f"{module}.py")
    result = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(result)
    return vars(result)


def listed():
    """List each difference as (trace, file, numbers); None stands for a missing row."""
    for module in ("test_hta_breakdowns", "test_hta_facade"):
        for (name, file), (_, theirs, ours, _) in tables(module)["DIFFERENCES"].items():
            yield name, file, theirs, ours
    for file, names in tables("test_hta_facade")["WORK"].items():
        for name in names:
            yield name, file
    counters = tables("test_hta_counters")
    for name, calls in counters["BEYOND_LISTED"].items():
        for count in calls.values():
            yield name, "cuda_kernel_launch_stats.csv", count
    for name, count in counters["WITHOUT_RATE"].items():
        yield name, "memory_bw_time_series.csv", count
    for (name, _), count in counters["RESIDUES"].items():
        yield name, "memory_bw_summary.csv", count
    operators = tables("test_hta_operators")
    for name, _, _, theirs, ours in operators["OTHER_DELAYS"]:
        yield name, "aten_op_kernels_and_delay.csv", theirs, ours
    for name in operators["FAILED"]:
        yield name, "frequent_sequences"
    for name, record in operators["OTHER_RANGES"]:
        yield name, "gpu_kernels_with_user_annotations.csv", record
    for (name, case), (theirs, ours, _) in tables("test_hta_critical_path")["DIFFERENT"].items():
        yield name, f"critical_path.{case}", theirs, ours
    for name, (theirs, ours, _) in tables("test_hta_call_graph")["NODES"].items():
        yield name, "call_graph.json", theirs, ours
    for name, (column, count, _) in tables("test_hta_frames")["DIFFERENCES"].items():
        yield name, "get_trace", column, count
    for (name, device), (theirs, ours, _) in tables("test_hta_trace_diff")["DIFFERENCES"].items():
        yield f"hta_tests__{name}", f"compare.{device}", theirs, ours


def rows():
    """Return all table rows of the pages."""
    text = "".join(page.read_text("utf-8") for page in PAGES)
    return [line for line in text.splitlines() if line.startswith("| ")]


def contains(row, what):
    """Return whether a table row contains a number (to four digits) or a word."""
    if what is None:
        return "none" in row
    if isinstance(what, str):
        return what in row
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", row).replace("\u2212", "-")
    numbers = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)", plain)
    return any(math.isclose(float(number), what, rel_tol=5e-5) for number in numbers)


@pytest.mark.parametrize(
    "difference", sorted(listed(), key=str), ids=lambda difference: "-".join(difference[:2])
)
def test_the_document_has_a_row_with_both_numbers(difference):
    name, file, *numbers = difference
    trace = name.removeprefix("hta_tests__").replace("kineto__", "kineto/")
    about = [row for row in rows() if f"`{trace}`" in row and f"`{file}`" in row]
    assert about, f"no page has a row for {trace} and {file}"
    assert any(all(contains(row, number) for number in numbers) for row in about), (numbers, about)


def test_the_document_names_no_trace_that_is_not_there(shared):
    folders = {path.name for path in (shared / "traces/hta_tests").iterdir()}
    folders |= {f"kineto/{path.name}" for path in (shared / "traces/kineto").iterdir()}
    lines = [row for row in rows() if row.count("|") == 7]
    named = {match[1] for row in lines if (match := re.match(r"\| `([\w/]+)` \|", row))}
    assert named
    assert named <= folders
