"""Unpack all files written about a job, so that a test can search them for secrets."""

import base64
import gzip
import re
from pathlib import Path

import numpy as np

import hta_widgets as hw
from hta_widgets.answers.summary import job_summary, summary_lines

#: A compressed block of a page: gzip data in base64, which starts with these characters.
_BLOCK = re.compile(rb"H4sI[A-Za-z0-9+/=]+")


def unpacked_outputs(traces: hw.TraceSet, folder: Path) -> dict[str, bytes]:
    """Write a job's store, export and page into a folder; return their contents and the summary."""
    folder.mkdir(exist_ok=True)
    traces.save(folder / "store")
    hw.export_trace(traces, folder / "trace.json", counters=True)
    hw.Dashboard(traces).save_html(folder / "page.html")
    page = (folder / "page.html").read_bytes()
    blocks = [gzip.decompress(base64.b64decode(block)) for block in _BLOCK.findall(page)]
    assert len(blocks) > 2
    stored = hw.load(folder / "store", cache=False, progress=False)
    records = [text for trace in stored.values() for text in records_of(trace)]
    files = [path.read_bytes() for path in (folder / "store").rglob("*") if path.is_file()]
    metadata = repr([trace.metadata for trace in stored.values()]).encode()
    return {
        "store": b"\n".join([*files, *records, metadata]),
        "export": (folder / "trace.json").read_bytes(),
        "page": b"\n".join([page, *blocks]),
        "summary": "\n".join(summary_lines(job_summary(traces))).encode(),
    }


def records_of(trace: hw.Trace) -> list[bytes]:
    source = trace.source
    assert source is not None
    return [text for _, text in source.records(np.arange(len(source)))]
