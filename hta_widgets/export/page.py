"""A comparison as one file: it opens from a disk, without kernel, server or network."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hta_widgets.live.answers import DiffAnswers
from hta_widgets.export.held import held
from hta_widgets.export.blocks import packed
from hta_widgets.export.page_file import ascii_json
from hta_widgets.export.page_file import code_blocks
from hta_widgets.export.page_file import footer_text
from hta_widgets.export.page_file import host_script
from hta_widgets.export.page_file import page_parts
from hta_widgets.export.page_file import page_target
from hta_widgets.export.page_file import source_files
from hta_widgets.export.page_file import write_page
from hta_widgets.live.tile_engine import TileEngine

__all__ = ["save_diff"]

_CODE = ("diff.js", "state.js", "diff.css")
#: Document, footer and what is around blocks.
_FRAME_BYTES = 12_000


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
        How large the file may become. Single steps have a quarter of what frames and pairs leave,
        those that changed most first, single pairs of ranks 15 %; both sides share the rest.

    Returns
    -------
    str
        The path that was written.

    Raises
    ------
    TraceError
        If `max_mb` is no size, or the file cannot be written.
    """
    target = page_target(
        path,
        max_mb,
        least_mb=1,
        remedy="Code, words and frames of a page take about as much.",
    )
    host = host_script()
    code = code_blocks(_CODE)
    code_bytes = len(host) + sum(block.size_bytes for block in code)
    saved_at = datetime.now(UTC)
    found = held(
        answers, sides, traits, max_mb * 1e6 - code_bytes - _FRAME_BYTES, saved_at=saved_at
    )
    files = source_files(*(engine for engine, _, _ in sides))
    whole = [packed("document", ascii_json(found.document)), *code, *found.blocks]
    sizes = [*found.sizes, ("code", code_bytes)]
    footer = footer_text(saved_at, files, sizes, " ".join(found.words))
    labels = traits["_about"]["labels"]
    write_page(target, page_parts(" → ".join(labels), footer, host, whole), max_mb)
    return str(target)
