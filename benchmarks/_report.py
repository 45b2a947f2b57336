"""Write the generated parts of docs/performance*.md: tables, a figure, and missing tools.

Generated parts are between ``<!-- generated: NAME -->`` and ``<!-- end: NAME -->``. All other text
on the pages is kept.
"""

import re
import statistics
from collections.abc import Callable
from typing import Any

import _chart as chart
from _anchors import (
    CATAPULT_ROW,
    FLOOR_ROW,
    HTA_ROW,
    JSON_ROW,
    ORJSON_ROW,
    OURS,
    PERFETTO_ROW,
)
from _harness import REPO, round_text, time_text
from _plan import PLAN
from _results import Results

__all__ = ["PARTS", "Results", "filled", "moves_table", "write"]

PAGES = [REPO / f"docs/performance{part}.md" for part in ("", "-views", "-ranks")]
PICTURE = REPO / "docs/img/performance.svg"
#: Other readers in the loading table. The table names missing ones.
ANCHORS = (HTA_ROW, PERFETTO_ROW, CATAPULT_ROW, JSON_ROW, ORJSON_ROW, FLOOR_ROW)
_PART = re.compile(r"<!-- generated: ([\w-]+) -->\n(.*?)<!-- end: \1 -->", re.DOTALL)


def machine(results: Results) -> str:
    """Describe the machine, the versions and the date."""
    facts = [step["machine"] for step in results.steps.values() if step.get("machine")]
    if not facts:
        return "Not measured yet: `make bench`."
    last = facts[-1]
    versions = ", ".join(
        f"{name} {last[name]}" for name in ("numpy", "pandas", "pyarrow", "msgspec") if name in last
    )
    dates = sorted({step["date"] for step in results.steps.values() if step.get("date")})
    commits = list(dict.fromkeys(fact["commit"] for fact in facts if fact.get("commit")))
    commit = " to ".join(dict.fromkeys([commits[0], commits[-1]])) if commits else "none"
    quick = any(step.get("quick") for step in results.steps.values())
    return (
        f"{last['processor']}, {last['processors']} processors; Python {last['python']}, "
        f"{versions}; commit {commit}; {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}."
        + ("\n\n**A quick try: small sizes, few repeats.**" if quick else "")
    )


def loading(results: Results) -> str:
    """Report time and memory of each reader for both files on one core, or what is missing."""
    result = results.files.get("load", {})
    sizes = [size for size in ("small", "large") if isinstance(result.get(size), list)]
    if not sizes:
        return missing_text(results, "load")
    heads = {"small": "35 MB, 45 k events", "large": "311 MB, 1.62 M records"}
    lines = [
        "| | " + " | ".join(f"{heads[size]} | hta_widgets is" for size in sizes) + " |",
        "|---|" + "---:|---:|" * len(sizes),
    ]
    for name in (OURS, *ANCHORS):
        cells = [name if name != HTA_ROW else f"{HTA_ROW} (`TraceAnalysis`)"]
        for size in sizes:
            cells += _time_and_ratio(results, size, name)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _time_and_ratio(results: Results, size: str, name: str) -> list[str]:
    row, own = results.row(size, name), results.seconds(size, OURS)
    seconds = results.seconds(size, name)
    if seconds is None:
        return [row.get("note") or "not measured", "–"]
    added = statistics.median(run["added_mb"] for run in row["runs"])
    ratio = "" if name == OURS or not own else faster(seconds / own)
    return [f"{time_text(seconds)}, +{added:,.0f} MB", ratio]


def again(results: Results) -> str:
    """Report repeated loading, from the cache and from a store."""
    lines = [
        "| | 35 MB | HTA's load takes | 311 MB | HTA's load takes |",
        "|---|---:|---:|---:|---:|",
    ]
    for place in ("the cache", "a store"):
        for suffix in ("", ", and all events"):
            cells = [f"from {place}{suffix}"]
            for size in ("small", "large"):
                seconds = results.seconds(size, f"ours, from {place}{suffix}")
                theirs = results.seconds(size, HTA_ROW)
                cells.append(time_text(seconds) if seconds is not None else "not measured")
                cells.append(f"{round_text(theirs / seconds)}×" if seconds and theirs else "–")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def job(results: Results) -> str:
    """Report how the other tools load the job of ten million events."""
    rows = results.files.get("load", {}).get("job")
    lines = ["| the same job in other tools | time | peak of all processes |", "|---|---:|---:|"]
    if not isinstance(rows, list):
        return "\n".join([*lines, f"| others | {rows or 'not measured'} | – |"])
    for row in rows:
        if row["runs"]:
            run = row["runs"][0]
            note = f" ({row['note']})" if row["note"] else ""
            lines.append(
                f"| {row['name']} | {time_text(run['seconds'])}{note} | {run['peak_mb']:,.0f} MB |"
            )
        else:
            lines.append(f"| {row['name']} | {row['note']} | – |")
    return "\n".join(lines)


def analyses(results: Results) -> str:
    """Report all calls of the HTA interface, in ms."""
    result = {
        name: part
        for name, part in results.files.get("analyses", {}).items()
        if isinstance(part, dict) and "ours" in part
    }
    if not result:
        return missing_text(results, "analyses")
    lines = [
        "| milliseconds | " + " | ".join(f"{name}: ours | HTA | faster" for name in result) + " |",
        "|---|" + "---:|---:|---:|" * len(result),
    ]
    for call in next(iter(result.values()))["ours"]:
        cells = [call]
        for part in result.values():
            own, theirs = part["ours"].get(call), part[HTA_ROW].get(call)
            both = isinstance(own, float) and isinstance(theirs, float)
            ratio = f"{round_text(theirs / own)}×" if both else "–"
            slow = both and theirs > 0.2
            cells += [_ms(own), _ms(theirs), f"**{ratio}**" if slow else ratio]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def viewers(results: Results) -> str:
    """Report the same interactions in three viewers."""
    result = results.files.get("viewers", {})
    texts = []
    for size, head in (("small", "35 MB, 45 k events"), ("large", "311 MB, 1.62 M records")):
        if isinstance(result.get(size), dict):
            texts.append(f"{head}:\n\n{moves_table(result[size])}")
    return "\n\n".join(texts) or missing_text(results, "viewers")


def moves_table(results: dict[str, Any]) -> str:
    """Return a Markdown table with a row for each interaction."""
    lines = [
        (
            "| viewer | move | took | page busy | work p50 | work p95 | intervals p95 | longest "
            "| over 25 ms |"
        ),
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, moves in results.items():
        if isinstance(moves, str):
            lines.append(f"| {name} | {moves} | – | – | – | – | – | – | – |")
            continue
        lines += [
            f"| {name} | {move} | {item['took_s']:.1f} s | {item['busy_s']:.2f} s "
            f"| {item['work_p50_ms']:.1f} ms | {item['work_p95_ms']:.1f} ms "
            f"| {item['gap_p95_ms']:.0f} ms | {item['gap_max_ms']:.0f} ms "
            f"| {item['slow_share']:.1%} |"
            for move, item in moves.items()
        ]
    return "\n".join(lines)


def printed(name: str) -> Callable[[Results], str]:
    """Return a function that reports the output of a script."""

    def part(results: Results) -> str:
        step = results.steps.get(name, {})
        text = re.sub(r"^#+ (.*)$", r"**\1**", step.get("text", ""), flags=re.MULTILINE)
        lines = [
            line.rstrip()
            for line in text.splitlines()
            # The page already describes the machine at the top.
            if not re.match(r"written to |.* processors, load ", line)
        ]
        shown = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        reason = missing_text(results, name)
        return "\n\n".join(part for part in (shown, reason) if part)

    return part


def took(results: Results) -> str:
    """Return the run time of each script, and how it ended."""
    lines = ["| script | time | |", "|---|---:|---|"]
    for step in PLAN:
        result = results.steps.get(step.name)
        if result is None:
            lines.append(f"| {step.name} | – | not measured |")
        else:
            lines.append(f"| {step.name} | {result['seconds']:.0f} s | {result['failed']} |")
    total = sum(result["seconds"] for result in results.steps.values())
    return "\n".join([*lines, f"| all | {total / 60:.0f} min | |"])


def missing_text(results: Results, name: str) -> str:
    """Return the reason if a script has no results."""
    step = results.steps.get(name)
    if step is None:
        return f"Not measured: {name}."
    return f"{name}: {step['failed']}." if step["failed"] else ""


PARTS: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "loading": loading,
    "again": again,
    "big": printed("big"),
    "job": job,
    "analyses": analyses,
    "viewers": viewers,
    "took": took,
    **{name: printed(name) for name in ("frames", "tiles", "brush", "diff")},
    **{name: printed(name) for name in ("ranks", "ranks-dask", "cluster")},
}


def filled(text: str, results: Results) -> str:
    """Return a page with updated generated parts."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- generated: {name} -->\n{PARTS[name](results)}\n<!-- end: {name} -->"

    return _PART.sub(part, text)


def write(results: Results) -> None:
    """Update the generated parts of the pages and the figure."""
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(chart.svg(chart.groups(results)))
    for page in PAGES:
        page.write_text(filled(page.read_text("utf-8"), results), "utf-8")


def faster(ratio: float) -> str:
    """Describe a comparison with a tool that takes `ratio` times as long."""
    return f"{round_text(ratio)}× faster" if ratio >= 1 else f"{round_text(1 / ratio)}× slower"


def _ms(seconds: float | str | None) -> str:
    return f"{seconds * 1e3:,.1f}" if isinstance(seconds, float) else "–"
