"""Compare two runs: findings as a table, metrics for CI, a comment for code reviews.

A run may be a baseline: a store in the cache folder, written by `save_baseline`. A comparison with
a baseline needs no trace files of that run::

    hta-widgets baseline save main runs/main      # after each merge
    hta-widgets diff baseline:main runs/change --fail-above 5%
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from hta_widgets.answers.job import Job
from hta_widgets.answers.reply import TableReply, escape_markdown, job_facts, markdown_lines
from hta_widgets.answers.verdict import METRIC_NAMES, judge
from hta_widgets.diff.compare import Comparison, compare
from hta_widgets.diff.findings import cautions, findings
from hta_widgets.diff.tables import iter_rows
from hta_widgets.errors import TraceError
from hta_widgets.files import cache_folder
from hta_widgets.text import duration, escape_controls, share, share_delta, shorten_words
from hta_widgets.trace.call_args import short_shapes

BASELINE = "baseline:"
_NAME = re.compile(r"[\w.-]{1,80}")
_MAX_FINDINGS = 8
_BAR_CHARACTERS = 32
#: Block characters with a width of one to seven eighths.
_EIGHTHS = "▏▎▍▌▋▊▉"
#: Maximum number of listed operators, and their smallest change relative to the time before.
_MAX_DIFFERENCES, _MIN_DIFFERENCE = 5, 0.01
#: Fields of a `Finding`.
_COLUMNS = ["kind", "measure", "name", "ranks", "before", "after", "unit", "diff_ns", "p_value",
            "text"]  # fmt: skip


def compare_jobs(
    before: Job,
    after: Job,
    *,
    ranks: Iterable[int] | None = None,
    after_ranks: Iterable[int] | None = None,
    limit_share: float | None = None,
    metric: str = "step",
) -> TableReply:
    """Compare two runs and return the findings as a table.

    The envelope has further keys: ``before``, the facts of the first job; ``metrics``, the values
    of the usual metrics; and, if `limit_share` is given, ``verdict``, the verdict on `metric`.
    """
    if "fitted" in {before.traces.clock, after.traces.clock}:
        before = replace(before, traces=before.traces.with_clock("fitted"))
        after = replace(after, traces=after.traces.with_clock("fitted"))
    sides = (
        before.traces.select(ranks=ranks),
        after.traces.select(ranks=ranks if after_ranks is None else after_ranks),
    )
    diff = compare(*sides)
    frame = pd.DataFrame(list(map(vars, findings(diff))), columns=_COLUMNS)
    frame["ranks"] = [", ".join(map(str, ranks)) for ranks in frame["ranks"]]
    frame = frame.astype(dict.fromkeys(("before", "after", "diff_ns", "p_value"), "float64"))
    more = {"before": job_facts(before.traces, before.paths), "metrics": _metrics(diff)}
    if limit_share is not None:
        more["verdict"] = judge(diff, limit_share, metric).to_json()
    note = ""
    if frame.empty:
        warnings = " ".join(caution.text for caution in cautions(diff))
        note = ". ".join(filter(None, ("nothing changed beyond the noise", warnings)))
    side_codes = [
        name if side.ranks is None else side.to_code(name)
        for name, side in zip((before.code, "traces"), sides, strict=True)
    ]
    code = f"hw.diff.findings(hw.diff.compare({', '.join(side_codes)}))"
    return after.reply(frame, "findings", len(frame), code=code, note=note, more=more)


def _metrics(diff: Comparison) -> dict[str, Any]:
    if not diff.before.has_steps:
        return {}
    # The limit only affects the outcome, which is not among the fields.
    verdicts = {name: judge(diff, 0.05, name) for name in METRIC_NAMES}
    fields = ("unit", "before", "after", "change_share", "noise_share", "p_value")
    return {
        name: {field: getattr(verdict, field) for field in fields}
        for name, verdict in verdicts.items()
        if verdict.before is not None
    }


def comment_lines(reply: TableReply) -> Iterator[str]:
    """Yield a comparison as a Markdown comment: verdict, metrics, main findings."""
    if "verdict" in reply.more:
        yield from (f"**{escape_markdown(reply.more['verdict']['text'])}**", "")
    metrics = reply.more["metrics"]
    if metrics:
        cells = [["metric", "before", "after", "change", "noise"], *_metric_rows(metrics)]
        yield from markdown_lines(cells, [False, *[True] * 4])
        yield ""
    times = {name: figures for name, figures in metrics.items() if figures["unit"] == "ns"}
    if times:
        yield from ("```text", *_bar_lines(times), "```", "")
    sentences = reply.frame["text"].tolist()
    for sentence in sentences[:_MAX_FINDINGS]:
        yield f"- {escape_markdown(shorten_words(sentence))}"
    if len(sentences) > _MAX_FINDINGS:
        yield f"- and {len(sentences) - _MAX_FINDINGS} more"
    if reply.note:
        yield escape_markdown(reply.note)


def _metric_rows(metrics: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    for name, figures in metrics.items():
        value_text = duration if figures["unit"] == "ns" else share
        noise = figures["noise_share"]
        yield [
            METRIC_NAMES[name],
            value_text(figures["before"]),
            value_text(figures["after"]),
            share_delta(figures["change_share"]),
            "unknown" if noise is None else share(noise),
        ]


def _bar_lines(times: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield two bars of block characters for each time, since comments cannot contain SVG."""
    longest_ns = max(max(figures["before"], figures["after"]) for figures in times.values())
    width = max(len(METRIC_NAMES[name]) for name in times)
    for name, figures in times.items():
        label = METRIC_NAMES[name]
        for side in ("before", "after"):
            eighths = round(figures[side] / longest_ns * _BAR_CHARACTERS * 8)
            full, rest = divmod(eighths, 8)
            bar = "█" * full + _EIGHTHS[rest - 1 : rest]
            yield f"{label:{width}}  {side:6}  {bar} {duration(figures[side])}"
            label = ""


def efficiency_change_lines(frame: pd.DataFrame) -> Iterator[str]:
    """Yield the change of the MFU, and the operators whose device time changed most."""
    yield frame.attrs["text"] or frame.attrs["note"] or "The MFU is unknown."
    is_changed = frame["diff_device_ns"].abs() >= _MIN_DIFFERENCE * frame["before_device_ns"]
    for row in iter_rows(frame[is_changed].head(_MAX_DIFFERENCES)):
        parts = [f"{duration(row.before_device_ns)} → {duration(row.after_device_ns)} a step"]
        before, after = row.before_roofline_share, row.after_roofline_share
        if before > 0 and after > 0:
            parts.append(f"{share(before)} → {share(after)} of the roofline")
        shapes = short_shapes(row.input_shapes)
        yield f"{escape_controls(f'{row.name} {shapes}'.strip())}: {', '.join(parts)}"


def open_run(source: str) -> Job:
    """Load a job or, for ``baseline:NAME``, a baseline."""
    if not source.startswith(BASELINE):
        return Job.open([source])
    return Job.open([str(_existing_baseline(source.removeprefix(BASELINE)))])


def save_baseline(name: str, paths: Sequence[str]) -> str:
    """Save a job as the baseline `name`, replacing an older one, and return its folder."""
    folder = _baseline_folder(name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    return Job.open(paths).traces.with_clock("host").save(folder)


def remove_baseline(name: str) -> None:
    """Remove a baseline."""
    shutil.rmtree(_existing_baseline(name))


def baseline_names() -> list[str]:
    """Return the sorted names of the baselines."""
    folder = cache_folder() / "baselines"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def _existing_baseline(name: str) -> Path:
    folder = _baseline_folder(name)
    if not folder.is_dir():
        names = ", ".join(baseline_names()) or "none"
        raise TraceError(
            f"no baseline {name!r}",
            remedy=f"The baselines are: {names}. `hta-widgets baseline save NAME JOB` makes one.",
        )
    return folder


def _baseline_folder(name: str) -> Path:
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise TraceError(
            f"{name!r} does not name a baseline",
            remedy="Use letters, digits, dots, dashes and underscores.",
        )
    return cache_folder() / "baselines" / name
