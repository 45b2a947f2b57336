"""Save a job or a comparison as one page: all events that fit, overviews of other ranks."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import numpy as np

from hta_widgets import diff
from hta_widgets.analysis.steps import phase_ranges
from hta_widgets.diff.align import BASES
from hta_widgets.export.pages.data import (
    CollectivesPart,
    PagePart,
    clusters_answer,
    embed_args,
    full_rank,
    overview,
)
from hta_widgets.export.pages.format import (
    Block,
    ColumnWriter,
    NameTables,
    PageContent,
    ascii_json,
    pack_block,
    save_page,
    source_files,
    version_text,
)
from hta_widgets.live.comparison import DiffAnswers, PairTable
from hta_widgets.live.job import TileEngine
from hta_widgets.live.operations import Answer
from hta_widgets.text import consecutive_runs, plural, run_text
from hta_widgets.tiles.lanes import LaneBudget, RankIndex

_LANE_BYTES = 256 << 20
_SCREEN_CELLS = 1024
#: Levels of detail of overviews: cells over the whole range, and whether all lanes are kept.
_LADDER = (
    (4096, True),
    (2048, True),
    (1024, True),
    (512, True),
    (2048, False),
    (1024, False),
    (512, False),
    (256, False),
)
_TIMELINE = ("timeline.js", "state.js", "timeline.css")
_DASHBOARD = ("dashboard.js", "state.js", "dashboard.css")
#: Bytes in addition to code and events: the page's text, names of a small job, tags of blocks.
_WORDS_BYTES = 4000
#: Bytes of one reply: larger messages would delay the following ones.
CHUNK_BYTES = 4_000_000
_MAX_MB = 25
#: Blocks are measured as base64: four characters hold three bytes.
_TEXT_PER_BYTE = 4 / 3


def save_html(
    path: str | os.PathLike[str],
    engine: TileEngine,
    scene: dict[str, Any],
    state: dict[str, Any],
    *,
    max_mb: float = 25,
    dashboard: Mapping[str, Any] | None = None,
) -> str:
    """Write a timeline, or a dashboard of these traits, as one self-contained page."""

    def make(room: float, saved_at: datetime) -> PageContent:
        files = source_files(engine)
        return embed(engine, scene, state, room - _WORDS_BYTES, saved_at, files, widget=widget)

    if dashboard is None:
        widget, code, more_code = "timeline", _TIMELINE, []
    else:
        widget, code = "dashboard", _DASHBOARD
        more_code = [pack_block("dashboard", ascii_json(dashboard))]
    return save_page(
        path,
        str(scene.get("title") or widget),
        code,
        [engine],
        make,
        max_mb=max_mb,
        least_mb=0.1,
        remedy="A page without any event takes about as much, one of a dashboard 0.8.",
        more_code=more_code,
    )


class OfflineData:
    """Prepares the data of a saved page in the background, and serves it in chunks.

    `make` returns the content that fits into a number of bytes of text.
    """

    def __init__(
        self,
        make: Callable[[float], PageContent],
        *,
        max_mb: float = _MAX_MB,
    ) -> None:
        self._make, self._limit_bytes = make, max_mb * 1e6 * _TEXT_PER_BYTE
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._content = b""
        self._said: dict[str, Any] = {"state": "preparing"}

    def chunk(self, number: int | None = None) -> Answer:
        """Return a chunk, or without a number the state of the work, which the first call starts.

        ``state`` is ``preparing``, ``ready`` or ``failed``, with ``message``. When ready, the reply
        has ``bytes``, ``chunks`` and ``blocks``: offset and length of each by name.
        """
        self.start()
        chunks = int(self._said.get("chunks", 0))
        if number is None:
            return dict(self._said), None
        if not 0 <= number < chunks:
            raise ValueError(f"there is no chunk {number}: there are {chunks}")
        start = number * CHUNK_BYTES
        return {"chunk": number}, self._content[start : start + CHUNK_BYTES]

    def start(self) -> threading.Thread:
        """Start the work if it has not started; return its thread."""
        with self._lock:
            if self._thread is None:
                # A daemon does not delay the end of the interpreter.
                self._thread = threading.Thread(
                    target=self._prepare, name="hta-offline-data", daemon=True
                )
                self._thread.start()
            return self._thread

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the work; return whether it is done."""
        thread = self.start()
        thread.join(seconds)
        return not thread.is_alive()

    def _prepare(self) -> None:
        try:
            made = self._make(self._limit_bytes)
            blocks = [pack_block("document", ascii_json(made.document)), *made.blocks]
            parts = [base64.b64decode(block.text) for block in blocks]
        except Exception as error:  # noqa: BLE001 - the page shows any error
            self._said = {"state": "failed", "message": str(error) or type(error).__name__}
            return
        self._content = b"".join(parts)
        sizes = list(map(len, parts))
        starts = accumulate(sizes, initial=0)
        self._said = {
            "state": "ready",
            "bytes": len(self._content),
            "chunks": -(-len(self._content) // CHUNK_BYTES),
            "blocks": {
                block.name: place for block, *place in zip(blocks, starts, sizes, strict=False)
            },
        }


def embed(
    engine: TileEngine,
    scene: dict[str, Any],
    state: Mapping[str, Any],
    limit_bytes: float,
    saved_at: datetime | None = None,
    files: Sequence[tuple[str, int | None]] = (),
    **more: Any,
) -> PageContent:
    """Return the part of a job that fits into `limit_bytes`.

    Without `saved_at` the part is for the page of an open notebook, which has the state itself.
    """
    made = _PagePlan(engine, scene, state, limit_bytes).execute()
    origin_ns = engine.traces.origin_ns
    about = {
        "version": 3,
        "scene": made.document["scene"],
        "state": {} if saved_at is None else state,
        "saved": {
            "at": "" if saved_at is None else saved_at.isoformat(timespec="seconds"),
            "by": "" if saved_at is None else f"hta_widgets {version_text()}",
            "files": [{"name": name, "bytes": size} for name, size in files],
            "embedded": made.sizes,
        },
        "origin_ns": None if origin_ns is None else str(origin_ns),
        **more,
    }
    return replace(made, document={**about, **made.document})


class _PagePlan:
    def __init__(
        self,
        engine: TileEngine,
        scene: dict[str, Any],
        state: Mapping[str, Any],
        limit_bytes: float,
    ) -> None:
        self.scene = scene
        self.names = NameTables()
        budget = LaneBudget(_LANE_BYTES)
        self.indices = {
            rank.rank: RankIndex(rank, budget, lambda: engine.lateness) for rank in engine.job.ranks
        }
        self.collectives = CollectivesPart(
            engine.job, engine.traces, lambda: engine.lateness, self.names
        )
        self.alike = clusters_answer(engine)
        self.phases = phase_ranges(engine.traces)
        late = self.collectives.late(*scene["range"])
        self.order = _by_importance(list(self.indices), scene, state, late)
        fixed = _fixed_bytes(self.indices.values(), [scene, self.alike])
        fixed += self.collectives.size_bytes
        self.limit = limit_bytes - fixed

    def execute(self) -> PageContent:
        full = self._full_ranks()
        overviews: dict[int, PagePart] = {}
        while len(full) < len(self.indices):
            rest = [rank for rank in self.order if rank not in full]
            overviews = self._overviews(rest, self.limit - _total_size(full.values()), len(full))
            if overviews:
                break
            del full[list(full)[-1]]
        args = self._args(
            full, self.limit - _total_size(full.values()) - _total_size(overviews.values())
        )
        made = [full.get(rank) or overviews[rank] for rank in self.indices]
        scene = _with_coverage(self.scene, list(full), args, overviews)
        return PageContent(
            document={
                "scene": scene,
                **self.names.document(),
                "ranks": [made_part.header for made_part in made],
                "collectives": self.collectives.header,
                "alike": self.alike,
                "phases": {"names": self.phases.names, "labels": self.phases.labels},
            },
            blocks=[
                *self.collectives.blocks,
                *(block for made_part in (*made, *args.values()) for block in made_part.blocks),
            ],
            sizes=[
                ("events", _total_size(full.values())),
                ("overviews", _total_size(overviews.values())),
                ("collectives", self.collectives.size_bytes),
                ("arguments", _total_size(args.values())),
            ],
            words=scene["embedded"]["text"],
            document_word="names and lanes",
        )

    def _full_ranks(self) -> dict[int, PagePart]:
        """Return ranks with all their events, the most important first, while they fit."""
        full: dict[int, PagePart] = {}
        used = 0
        for rank in self.order:
            made = full_rank(self.indices[rank], self.names, self.phases.of_rank[rank])
            used += made.size_bytes
            if used > self.limit:
                break
            full[rank] = made
        return full

    def _overviews(
        self, ranks: Sequence[int], budget_bytes: float, full: int
    ) -> dict[int, PagePart]:
        """Return the finest overviews that fit next to `full` ranks with all events, or none.

        Overviews with at least the resolution of a screen take precedence over a full rank.
        """
        largest = max(ranks, key=lambda rank: len(self.indices[rank].rank.table))
        made: dict[int, PagePart] = {}
        for cells, whole in _LADDER:
            if full and not whole and cells < _SCREEN_CELLS:
                return {}
            last = (cells, whole) == _LADDER[-1]
            # The largest rank is tried first, to avoid computing overviews that do not fit.
            size_bytes = self._overview(largest, cells, whole=whole).size_bytes * len(ranks)
            if size_bytes > 1.5 * budget_bytes and not (last and not full):
                continue
            made = {rank: self._overview(rank, cells, whole=whole) for rank in ranks}
            if _total_size(made.values()) <= budget_bytes:
                return made
        return {} if full else made

    def _overview(self, rank: int, cells: int, *, whole: bool) -> PagePart:
        wait = self.collectives.exposed_wait(rank)
        return overview(self.indices[rank], self.names, cells, whole=whole, exposed_wait=wait)

    def _args(self, full: dict[int, PagePart], budget_bytes: float) -> dict[int, PagePart]:
        found: dict[int, PagePart] = {}
        for rank, made in full.items():
            args = embed_args(self.indices[rank].rank, budget_bytes)
            budget_bytes -= args.size_bytes
            made.header["args"] = args.header
            found[rank] = args
        return found


def _total_size(parts: Iterable[PagePart | Block]) -> int:
    return sum(part.size_bytes for part in parts)


def _fixed_bytes(indices: Iterable[RankIndex], parts: Sequence[Any]) -> int:
    """Return the approximate size of the document without ranks: `parts` and all names."""
    names = {name for index in indices for name in index.rank.table.names.values}
    text = json.dumps(parts) + json.dumps(sorted(names, key=repr))
    return pack_block("document", text.encode("ascii")).size_bytes


def _by_importance(
    ranks: list[int], scene: dict[str, Any], state: Mapping[str, Any], late: Sequence[int] = ()
) -> list[int]:
    """Return the ranks in order of importance.

    First is the rank of the selected event, then those of the selection, pinned ranks, ranks that
    others wait for, the rank whose steps are shown, and all others.
    """
    wanted: list[int] = []
    event, selection = state.get("selected_event"), state.get("selection") or {}
    if event:
        wanted.append(int(event[0]))
    wanted += [int(rank) for rank in selection.get("ranks") or ()]
    wanted += [int(rank) for rank, _ in selection.get("ids") or ()]
    wanted += [int(pin.partition("/")[0]) for pin in state.get("pinned") or () if pin[:1].isdigit()]
    wanted += late
    if scene.get("steps_rank") is not None:
        wanted.append(int(scene["steps_rank"]))
    known = set(ranks)
    return list(dict.fromkeys(rank for rank in (*wanted, *ranks) if rank in known))


def _with_coverage(
    scene: dict[str, Any],
    full: list[int],
    args: dict[int, PagePart],
    overviews: dict[int, PagePart],
) -> dict[str, Any]:
    ranks = []
    for rank in scene["ranks"]:
        limits = {}
        if (brief := overviews.get(rank["rank"])) is not None:
            # Rows without data would look idle.
            tracks = rank["tracks"] if brief.whole else []
            limits = {"tracks": tracks, "overview_level": brief.header["level"]}
        ranks.append({**rank, **limits})
    with_args = [
        rank
        for rank, args_part in args.items()
        if args_part.header["state"] in {"embedded", "absent"}
    ]
    return {
        **scene,
        "ranks": ranks,
        "embedded": {
            "level": "partial" if overviews else "all",
            "text": _coverage_text(sorted(full), sorted(with_args), overviews),
            "ranks_full": sorted(full),
            "ranks_args": sorted(with_args),
        },
    }


def _coverage_text(full: list[int], args: list[int], overviews: dict[int, PagePart]) -> str:
    if not overviews:
        if len(args) == len(full):
            return "All events."
        return (
            f"All events; arguments of {_format_ranks(args)}."
            if args
            else "All events, no arguments."
        )
    if not full:
        return "Overview only: no single events."
    what = "all events" if len(args) == len(full) else "all events, no arguments"
    if args and len(args) < len(full):
        what = f"all events, arguments of {_format_ranks(args)}"
    return f"{_format_ranks(full).capitalize()}: {what}. Others: overview only."


def _format_ranks(ranks: list[int]) -> str:
    """Return ranks as text: ``rank 5``, ``ranks 0-3, 5``."""
    texts = list(map(run_text, consecutive_runs(ranks)))
    if len(texts) > 4:
        texts = [*texts[:3], "…", texts[-1]]
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(texts)}"


# --- comparisons ----------------------------------------------------------------------------------


_CODE = ("diff.js", "state.js", "diff.css")
#: Bytes of a page without its blocks: the document, the footer and the tags of blocks.
_FRAME_BYTES = 12_000
#: The dimensions that divide the kinds of the waterfall.
LEVELS = ("kind", "cause", "operator", "kernel")
#: Maximum shares of the frames of single steps and of single pairs of ranks. They are shares of the
#: bytes that remain after the code, the frames of the whole comparison and the pairs of events.
_STEPS_SHARE = 0.25
_PAIRS_SHARE = 0.15
#: Frames of more steps or pairs would take too long to compute.
_MAX_STEPS = 200
_MAX_PAIRS = 64
_MAX_NAMES = 100
#: Number of parts of a kind that the page draws (`js/src/compare/waterfall.ts`).
_MAX_PARTS = 8
_SIDES = ("before", "after")

Side = tuple[TileEngine, dict[str, Any], dict[str, Any]]


def save_diff(
    path: str | os.PathLike[str],
    answers: DiffAnswers,
    sides: Sequence[Side],
    traits: Mapping[str, Any],
    *,
    max_mb: float = 25,
) -> str:
    """Write a comparison as one self-contained page."""
    return save_page(
        path,
        " → ".join(traits["_about"]["labels"]),
        _CODE,
        [engine for engine, _, _ in sides],
        lambda room, saved_at: comparison_content(
            answers, sides, traits, room - _FRAME_BYTES, saved_at
        ),
        max_mb=max_mb,
        least_mb=1,
        remedy="Code, words and frames of a page take about as much.",
    )


def comparison_content(
    answers: DiffAnswers,
    sides: Sequence[Side],
    traits: Mapping[str, Any],
    limit_bytes: float,
    saved_at: datetime | None = None,
) -> PageContent:
    """Return the content of a page of a comparison; both runs' events get the remaining bytes.

    Whole frames and pairs of events are always included.
    """
    saved_at = saved_at or datetime.now(UTC)
    frames = {name: answers.frame(name) for name in _frame_names(answers)}
    own_blocks = [pack_block("frames", ascii_json(frames))]
    document: dict[str, Any] = {"version": 1, "widget": "diff", "traits": dict(traits)}
    if answers.has_events:
        columns = pair_columns(answers.pair_table)
        own_blocks.append(columns.block("pairs"))
        document["pairs"] = {
            "columns": columns.specs,
            "statuses": answers.pair_table.statuses,
            **answers.pair_table.classes.counts(),
        }
    fixed = _total_size(own_blocks)
    steps = StepBlocks(answers, (limit_bytes - fixed) * _STEPS_SHARE)
    pairs = PairBlocks(answers, (limit_bytes - fixed) * _PAIRS_SHARE)
    fixed += steps.size_bytes + pairs.size_bytes
    document["traits"]["_about"] = {**traits["_about"], **steps.about, **pairs.about}
    sizes: list[tuple[str, int]] = []
    words: list[str] = []
    blocks: list[Block] = []
    for place, (side, word) in enumerate(zip(sides, _SIDES, strict=True)):
        left = limit_bytes - fixed - _total_size(blocks)
        made = embed(*side, left / (len(sides) - place), saved_at, widget="timeline")
        of_side = [pack_block("document", ascii_json(made.document)), *made.blocks]
        blocks += [replace(block, name=f"{word}-{block.name}") for block in of_side]
        sizes += [(f"{word}: {name}", size) for name, size in made.sizes]
        words.append(f"{word.capitalize()}: {made.words}")
    sizes += [
        ("frames and pairs", _total_size(own_blocks)),
        ("single steps", steps.size_bytes),
        ("single pairs of ranks", pairs.size_bytes),
    ]
    words += [text for text in (steps.words, pairs.words) if text]
    blocks = [*own_blocks, *steps.blocks, *pairs.blocks, *blocks]
    return PageContent(document, blocks, sizes, " ".join(words))


def _frame_names(answers: DiffAnswers) -> list[str]:
    tables = [f"table:{name}" for name in answers.about()["tables"]]
    names = [*tables, "findings", "findings:swapped"]
    if answers.has_events:
        names += [f"{what}:{base}" for base in BASES for what in ("slots", "segments")]
        names += ["lanes", *(f"waterfall:{level}" for level in LEVELS)]
        names += ["names", "steps", "changes", "icicle", "overview"]
    return names


class FrameBlocks:
    """Blocks of frames, called ``word-N``, packed in the order of `frames` while all fit.

    `numbers` has the number of each block, ascending. `words` is a text on what is left out of the
    page, empty if nothing is. `about` has the document's entries.
    """

    words = ""
    about: Mapping[str, Any] = {}

    def __init__(
        self, limit_bytes: float, word: str, frames: Iterable[tuple[int, dict[str, Any]]]
    ) -> None:
        self.blocks: list[Block] = []
        self.numbers: list[int] = []
        self.size_bytes = 0
        for number, each in frames:
            block = pack_block(f"{word}-{number}", ascii_json(each))
            if self.size_bytes + block.size_bytes > limit_bytes:
                break
            self.blocks.append(block)
            self.numbers.append(number)
            self.size_bytes += block.size_bytes
        self.numbers.sort()


class PairBlocks(FrameBlocks):
    """The pairs of ranks whose own steps, waterfall and names a page holds."""

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        count = len(answers.both.rank_pairs)
        whole = count if answers.has_events and count > 1 else 0
        more = ("slots:steps", "steps", "lanes")
        pairs = range(min(whole, _MAX_PAIRS))
        frames = ((pair, _frames_in_page(answers, f"@{pair}", more)) for pair in pairs)
        super().__init__(limit_bytes, "pair", frames)
        held = len(self.numbers)
        if whole:
            self.about = {"held_pairs": self.numbers}
        if held < whole:
            self.words = f"{held} of {plural(whole, 'pair')} of ranks can be chosen in this page."


class StepBlocks(FrameBlocks):
    """The steps whose own waterfall and names a page holds, those that changed most first."""

    def __init__(self, answers: DiffAnswers, limit_bytes: float) -> None:
        whole = answers.both.step_count if answers.has_events else 0
        change = diff.steps(answers.both)["diff_ns"].abs().to_numpy() if whole else np.empty(0)
        steps = np.argsort(-change, kind="stable")[:_MAX_STEPS].tolist()
        frames = ((step, _frames_in_page(answers, f":{step}")) for step in steps)
        super().__init__(limit_bytes, "step", frames)
        held = len(self.numbers)
        if held == whole:
            return
        self.words = (
            f"{held} of {plural(whole, 'step')} can be chosen in this page, "
            "those that changed most."
            if held
            else "No step can be chosen in this page: there was no room for their own figures."
        )
        self.about = {"held_steps": self.numbers, "held_words": self.words}


def _frames_in_page(answers: DiffAnswers, of: str, more: Sequence[str] = ()) -> dict[str, Any]:
    """Return the frames of one part, ``:step`` or ``@pair``.

    Waterfalls and names are as a page draws them, `more` are the names of whole frames.
    """
    frames = {
        f"waterfall:{level}{of}": _parts_in_page(answers.frame(f"waterfall:{level}{of}"))
        for level in LEVELS
    }
    frames[f"names{of}"] = _names_in_page(answers.frame(f"names{of}"))
    return frames | {f"{name}{of}": answers.frame(f"{name}{of}") for name in more}


def _names_in_page(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of names that changed most, without the full names behind short ones.

    The page takes those from the names of the whole comparison.
    """
    columns = {
        name: values[:_MAX_NAMES] for name, values in frame["columns"].items() if name != "members"
    }
    return {"rows": min(frame["rows"], _MAX_NAMES), "columns": columns, "attrs": frame["attrs"]}


def _parts_in_page(frame: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that a page draws of each kind, with the kind's others as one."""
    columns: dict[str, list[Any]] = frame["columns"]
    by_kind: dict[str, list[int]] = defaultdict(list)
    for row, kind in enumerate(columns["kind"]):
        by_kind[kind].append(row)
    made: dict[str, list[Any]] = {name: [] for name in columns}
    for rows in by_kind.values():
        shown = rows if len(rows) <= _MAX_PARTS + 1 else rows[:_MAX_PARTS]
        rest = rows[len(shown) :]
        for name, values in columns.items():
            made[name] += [values[row] for row in shown]
            if rest and name.endswith("_ns"):
                made[name].append(sum(values[row] for row in rest))
            elif rest:
                words = {"name": f"{len(rest)} more", "short": f"{len(rest)} more"}
                made[name].append(words.get(name, values[rest[0]] if name == "kind" else None))
    return {"rows": len(made["kind"]), "columns": made, "attrs": frame["attrs"]}


def pair_columns(table: PairTable) -> ColumnWriter:
    """Return the columns from which a page answers requests about pairs of calls."""
    out = ColumnWriter()
    device = table.is_device
    for k in (0, 1):
        out.ints(f"rank{k}", table.rank[k] + 1, delta=True)
        out.ints(f"id{k}", table.id[k] + 1, delta=True)
        # The page reads the times of other pairs from their events.
        out.ints(f"start{k}", table.start[k][device], delta=True)
        out.ints(f"dur{k}", table.dur[k][device])
    out.ints("status", table.status)
    out.ints("class", table.classes.of_pairs)
    out.ints("node", table.node + 1)
    for row, rows in enumerate(table.rows_of_changes()):
        out.ints(f"change{row}", rows.astype(np.int64), delta=True)
    out.ints("device", device)
    return out
