"""What of a job goes into a page of limited size: events first, then arguments, by importance."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hta_widgets.analysis.phase_times import phase_ranges
from hta_widgets.export.alike import alike
from hta_widgets.export.args import ArgsOfRank
from hta_widgets.export.args import embed_args
from hta_widgets.export.blocks import Block
from hta_widgets.export.blocks import packed
from hta_widgets.export.collectives import Collectives
from hta_widgets.export.full_rank import FullRank
from hta_widgets.export.names import Names
from hta_widgets.export.overview import Overview
from hta_widgets.text import number_runs
from hta_widgets.text import run_text
from hta_widgets.live.tile_engine import TileEngine
from hta_widgets.tiles.rank_index import Budget
from hta_widgets.tiles.rank_index import RankIndex

__all__ = ["Embedded", "embed"]

_LANE_BYTES = 256 << 20
_SCREEN_CELLS = 1024
#: Cells over the whole range, and whether all lanes are kept.
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


@dataclass(slots=True)
class Embedded:
    """What a page holds of a job.

    Attributes
    ----------
    document : dict
        The page's document without scene, state and what is said of the file.
    blocks : list of Block
    scene : dict
        The scene, which now says what is embedded.
    sizes : list of (str, int)
        What takes how many bytes.
    """

    document: dict[str, Any]
    blocks: list[Block]
    scene: dict[str, Any]
    sizes: list[tuple[str, int]]


def embed(
    engine: TileEngine, scene: dict[str, Any], state: dict[str, Any], limit_bytes: float
) -> Embedded:
    """Return as much of a job as fits into so many bytes.

    Parameters
    ----------
    engine : TileEngine
        Of the job.
    scene, state : dict
        The scene of the page, and what its views share: selected ranks come first.
    limit_bytes : float
        Size of the blocks. The matched collectives and an overview of every rank are embedded
        even where they need more.
    """
    return _Plan(engine, scene, state, limit_bytes).carry_out()


class _Plan:
    def __init__(
        self, engine: TileEngine, scene: dict[str, Any], state: dict[str, Any], limit_bytes: float
    ) -> None:
        self.scene = scene
        self.names = Names()
        budget = Budget(_LANE_BYTES)
        self.indices = {
            rank.rank: RankIndex(rank, budget, lambda: engine.lateness) for rank in engine.job.ranks
        }
        self.collectives = Collectives(engine.job, lambda: engine.lateness, self.names)
        self.alike = alike(engine)
        self.phases = phase_ranges(engine.traces)
        late = self.collectives.late(*scene["range"])
        self.order = _by_importance(list(self.indices), scene, state, late)
        fixed = _fixed_bytes(self.indices.values(), [scene, self.alike])
        fixed += self.collectives.size_bytes
        self.limit = limit_bytes - fixed

    def carry_out(self) -> Embedded:
        full = self._full_ranks()
        overviews: dict[int, Overview] = {}
        while len(full) < len(self.indices):
            rest = [rank for rank in self.order if rank not in full]
            overviews = self._overviews(rest, self.limit - _size(full.values()), len(full))
            if overviews:
                break
            del full[list(full)[-1]]
        args = self._args(full, self.limit - _size(full.values()) - _size(overviews.values()))
        ranks = [
            full[rank].header if rank in full else overviews[rank].header for rank in self.indices
        ]
        ranks_blocks = [
            full[rank].block if rank in full else overviews[rank].block for rank in self.indices
        ]
        args_blocks = [block for one in args.values() for block in one.blocks]
        return Embedded(
            document={
                **self.names.document(),
                "ranks": ranks,
                "collectives": self.collectives.header,
                "alike": self.alike,
                "phases": {"names": self.phases.names, "labels": self.phases.labels},
            },
            blocks=[*self.collectives.blocks, *ranks_blocks, *args_blocks],
            scene=_with_coverage(self.scene, list(full), args, overviews),
            sizes=[
                ("events", _size(full.values())),
                ("overviews", _size(overviews.values())),
                ("collectives", self.collectives.size_bytes),
                ("arguments", sum(one.size_bytes for one in args.values())),
            ],
        )

    def _full_ranks(self) -> dict[int, FullRank]:
        """Return ranks with all their events, the most important first, while they fit."""
        full: dict[int, FullRank] = {}
        used = 0
        for rank in self.order:
            made = FullRank(self.indices[rank], self.names, self.phases.of_rank[rank])
            used += made.block.size_bytes
            if used > self.limit:
                break
            full[rank] = made
        return full

    def _overviews(self, ranks: Sequence[int], room: float, full: int) -> dict[int, Overview]:
        """Return the finest overviews that fit beside so many full ranks, or none if none fit.

        A full rank gives way to overviews that show about what a screen shows of the whole job.
        """
        largest = max(ranks, key=lambda rank: len(self.indices[rank].rank.table))
        made: dict[int, Overview] = {}
        for cells, whole in _LADDER:
            if full and not whole and cells < _SCREEN_CELLS:
                return {}
            last = (cells, whole) == _LADDER[-1]
            make = self._overview(cells, whole=whole)
            # The largest one stands for all: no rank is made twice for nothing.
            if make(largest).block.size_bytes * len(ranks) > 1.5 * room and not (last and not full):
                continue
            made = {rank: make(rank) for rank in ranks}
            if _size(made.values()) <= room:
                return made
        return {} if full else made

    def _overview(self, cells: int, *, whole: bool) -> Callable[[int], Overview]:
        return lambda rank: Overview(
            self.indices[rank],
            self.names,
            cells,
            whole=whole,
            exposed_wait=self.collectives.exposed_wait(rank),
        )

    def _args(self, full: dict[int, FullRank], room: float) -> dict[int, ArgsOfRank]:
        found: dict[int, ArgsOfRank] = {}
        for rank, made in full.items():
            args = embed_args(made.rank, room)
            room -= args.size_bytes
            made.header["args"] = args.header()
            found[rank] = args
        return found


def _size(parts: Iterable[FullRank | Overview]) -> int:
    return sum(part.block.size_bytes for part in parts)


def _fixed_bytes(indices: Iterable[RankIndex], parts: Sequence[Any]) -> int:
    """Return about what the document takes before any rank is in it: these parts and all names."""
    names = {name for index in indices for name in index.rank.table.names.values}
    text = json.dumps(parts) + json.dumps(sorted(names, key=repr))
    return packed("document", text.encode("ascii")).size_bytes


def _by_importance(
    ranks: list[int], scene: dict[str, Any], state: dict[str, Any], late: Sequence[int] = ()
) -> list[int]:
    """Return the ranks by how much is to be seen of them.

    The selected event's, the selection's, pinned ones, those that the others wait for, the steps'
    rank, then all others.
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
    args: dict[int, ArgsOfRank],
    overviews: dict[int, Overview],
) -> dict[str, Any]:
    ranks = [_rank_with_coverage(rank, overviews.get(rank["rank"])) for rank in scene["ranks"]]
    with_args = [rank for rank, one in args.items() if one.state in {"embedded", "absent"}]
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


def _rank_with_coverage(rank: dict[str, Any], overview: Overview | None) -> dict[str, Any]:
    if overview is None:
        return rank
    # Rows of which nothing is known would look idle.
    tracks = rank["tracks"] if overview.whole else []
    return {**rank, "tracks": tracks, "overview_level": overview.grid.level}


def _coverage_text(full: list[int], args: list[int], overviews: dict[int, Overview]) -> str:
    if not overviews:
        if len(args) == len(full):
            return "All events."
        return f"All events; arguments of {_listed(args)}." if args else "All events, no arguments."
    if not full:
        return "Overview only: no single events."
    what = "all events" if len(args) == len(full) else "all events, no arguments"
    if args and len(args) < len(full):
        what = f"all events, arguments of {_listed(args)}"
    return f"{_listed(full).capitalize()}: {what}. Others: overview only."


def _listed(ranks: list[int]) -> str:
    """Return ranks in words: ``rank 5``, ``ranks 0-3, 5``."""
    texts = list(map(run_text, number_runs(ranks)))
    if len(texts) > 4:
        texts = [*texts[:3], "…", texts[-1]]
    return f"rank{'' if len(ranks) == 1 else 's'} {', '.join(texts)}"
