"""A comparison as one file: it opens from a disk, without kernel, server or network."""

# ruff: noqa: SLF001 - what writes a page of one job, in the same room

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hta_widgets.diff import BASES
from hta_widgets.errors import TraceError
from hta_widgets.export import html
from hta_widgets.export.diff_page.answers import DiffAnswers
from hta_widgets.export.embed import Block, embed
from hta_widgets.export.embed.blocks import packed
from hta_widgets.tiles import TileEngine

__all__ = ["save_diff"]

_CODE = ("diff.js", "state.js", "diff.css")
_MOST_STEPS = 12
_SIDES = ("before", "after")


def save_diff(
    path: str | os.PathLike[str],
    answers: DiffAnswers,
    sides: Sequence[tuple[TileEngine, dict[str, Any], dict[str, Any]]],
    traits: Mapping[str, Any],
    *,
    max_mb: float = 25,
) -> str:
    """Write a comparison as one self-contained page.

    Parameters
    ----------
    path : path-like
        The file to write.
    answers : DiffAnswers
        Frames and pairs; all that fit a page are embedded.
    sides : two of (TileEngine, scene, state)
        Before and after.
    traits : mapping
        Of the widget's model.
    max_mb : float, default 25
        How large the file may become; both sides have the same part of it.

    Returns
    -------
    str
        The path that was written.

    Raises
    ------
    TraceError
        If `max_mb` is no size, or the file cannot be written.
    """
    if not max_mb >= 1:
        raise TraceError(
            f"max_mb must be at least 1, not {max_mb}",
            remedy="Code, words and frames of a page take about as much.",
        )
    target = Path(os.fspath(path)).expanduser()
    host = html._host_script()
    code = [packed(name, html._built(name).encode()) for name in _CODE]
    frames = {name: answers.frame(name) for name in _frame_names(answers)}
    own = [packed("frames", _json(frames))]
    document: dict[str, Any] = {"version": 1, "widget": "diff", "traits": dict(traits)}
    if answers.has_events:
        columns = answers.pair_table.write()
        own.append(columns.block("pairs"))
        document["pairs"] = {"columns": columns.specs, "statuses": answers.pair_table.statuses}
    fixed = len(host) + sum(block.size_bytes for block in (*code, *own)) + 4000
    blocks: list[Block] = []
    sizes: list[tuple[str, int]] = []
    files: dict[str, int | None] = {}
    said = []
    saved_at = datetime.now(UTC)
    for place, (engine, scene, state) in enumerate(sides):
        left = max_mb * 1e6 - fixed - sum(block.size_bytes for block in blocks)
        embedded = embed(engine, scene, state, left / (len(sides) - place))
        word = _SIDES[place]
        side = {
            "version": 1,
            "scene": embedded.scene,
            "state": state,
            "saved": {
                "at": saved_at.isoformat(timespec="seconds"),
                "by": f"hta_widgets {html._version()}",
                "files": [],
                "embedded": embedded.sizes,
            },
            "origin_ns": None if engine.traces.origin_ns is None else str(engine.traces.origin_ns),
            "widget": "timeline",
            **embedded.document,
        }
        blocks.append(packed(f"{word}-document", _json(side)))
        blocks += [replace(block, name=f"{word}-{block.name}") for block in embedded.blocks]
        sizes += [(f"{word}: {name}", size) for name, size in embedded.sizes]
        files.update(html._files(engine))
        said.append(f"{word.capitalize()}: {embedded.scene['embedded']['text']}")
    sizes += [("frames and pairs", sum(block.size_bytes for block in own))]
    sizes += [("code", len(host) + sum(block.size_bytes for block in code))]
    whole = [packed("document", _json(document)), *code, *own, *blocks]
    labels = traits["_about"]["labels"]
    footer = html._footer(
        saved_at, list(files.items()), sizes, {"embedded": {"text": " ".join(said)}}
    )
    html._write(target, html._page(" → ".join(labels), footer, host, whole))
    written = target.stat().st_size
    if written > max_mb * 1e6:
        warnings.warn(
            f"{target} takes {written / 1e6:.1f} MB, more than max_mb={max_mb}: "
            "a page holds at least an overview of every rank",
            stacklevel=2,
        )
    return str(target)


def _frame_names(answers: DiffAnswers) -> list[str]:
    names = [f"table:{name}" for name in answers.about()["tables"]]
    if not answers.has_events:
        return names
    names += [f"{what}:{base}" for base in BASES for what in ("slots", "segments")]
    names += [f"lanes:{pair}" for pair in range(len(answers.both.rank_pairs))][:8]
    levels = ("kind", "cause", "operator", "kernel")
    names += [f"waterfall:{level}" for level in levels]
    names += ["names", "steps", "icicle", "findings", "findings:swapped"]
    if 1 < answers.both.step_count <= _MOST_STEPS:
        for step in range(answers.both.step_count):
            names += [f"waterfall:{level}:{step}" for level in levels]
            names.append(f"names:{step}")
    return names


def _json(value: Any) -> bytes:
    # ASCII only: names may hold what is no valid Unicode.
    text = json.dumps(html._finite(value), separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")
