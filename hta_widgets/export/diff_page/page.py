"""A comparison as one file: it opens from a disk, without kernel, server or network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hta_widgets.diff import BASES
from hta_widgets.errors import TraceError
from hta_widgets.export.diff_page.answers import DiffAnswers
from hta_widgets.export.diff_page.step_blocks import HeldSteps
from hta_widgets.export.embed import Block, embed
from hta_widgets.export.embed.blocks import packed
from hta_widgets.export.page_file import (
    ascii_json,
    built_text,
    footer_text,
    host_script,
    page_parts,
    source_files,
    version_text,
    warn_of_size,
    write_page,
)
from hta_widgets.tiles import TileEngine

__all__ = ["save_diff"]

_CODE = ("diff.js", "state.js", "diff.css")
#: Of what code, whole frames and pairs leave, the part that single steps may take.
_STEPS_SHARE = 0.25
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
        How large the file may become. Steps by themselves have a quarter of what frames and
        pairs leave, those that changed most first; both sides have the same part of the rest.

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
    host = host_script()
    code = [packed(name, built_text(name).encode()) for name in _CODE]
    frames = {name: answers.frame(name) for name in _frame_names(answers)}
    own = [packed("frames", ascii_json(frames))]
    document: dict[str, Any] = {"version": 1, "widget": "diff", "traits": dict(traits)}
    if answers.has_events:
        columns = answers.pair_table.write()
        own.append(columns.block("pairs"))
        document["pairs"] = {"columns": columns.specs, "statuses": answers.pair_table.statuses}
    fixed = len(host) + sum(block.size_bytes for block in (*code, *own)) + 4000
    steps = HeldSteps(answers, (max_mb * 1e6 - fixed) * _STEPS_SHARE)
    fixed += steps.size_bytes
    document["traits"]["_about"] = {**traits["_about"], **steps.about()}
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
                "by": f"hta_widgets {version_text()}",
                "files": [],
                "embedded": embedded.sizes,
            },
            "origin_ns": None if engine.traces.origin_ns is None else str(engine.traces.origin_ns),
            "widget": "timeline",
            **embedded.document,
        }
        blocks.append(packed(f"{word}-document", ascii_json(side)))
        blocks += [replace(block, name=f"{word}-{block.name}") for block in embedded.blocks]
        sizes += [(f"{word}: {name}", size) for name, size in embedded.sizes]
        files.update(source_files(engine))
        said.append(f"{word.capitalize()}: {embedded.scene['embedded']['text']}")
    sizes += [("frames and pairs", sum(block.size_bytes for block in own))]
    sizes += [("single steps", steps.size_bytes)]
    sizes += [("code", len(host) + sum(block.size_bytes for block in code))]
    whole = [packed("document", ascii_json(document)), *code, *own, *steps.blocks, *blocks]
    labels = traits["_about"]["labels"]
    if steps.words:
        said.append(steps.words)
    footer = footer_text(saved_at, list(files.items()), sizes, " ".join(said))
    write_page(target, page_parts(" → ".join(labels), footer, host, whole))
    warn_of_size(target, max_mb)
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
    return names
