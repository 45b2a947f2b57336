"""Which rows the picture has and how high: the same as on the screen (``js/src/layout``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hta_widgets.text import number_runs, run_text

__all__ = ["Band", "Form", "Row", "lay_rows"]

Form = Literal["solid", "pale", "bar", "counter"]
RankScene = Mapping[str, Any]

_GPU, _COMM, _PAD, _GAP, _BEFORE_CPU, _BELOW = 16, 12, 3, 1, 3, 2
_GROWN_GPU, _GROWN_COMM = 24, 15
_BAR, _MOST_BARS, _BARS = 3, 3, 2
_MANY_RANKS, _RIBBON_FIRST = 40, 16
_RIBBON = 5
_TWO_LINES = 36

_PITCH = {"thread": 17, "stream": 21, "annotation": 16, "async": 17, "instant": 12, "counter": 30}
_TRACK_BELOW = {
    "thread": 4,
    "stream": 4,
    "annotation": 2,
    "async": 4,
    "instant": 3,
    "counter": 4,
}


@dataclass(frozen=True)
class Band:
    """One lane of a row; `top` counts from the row's."""

    lane: int
    top: float
    height: float
    form: Form
    label: str = ""
    wait: int = -1
    late: int = -1
    range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Row:
    """A folded rank, the head of an opened one (`track` None), or a track."""

    rank: RankScene
    track: Mapping[str, Any] | None
    names: tuple[str, ...]
    height: float
    bands: tuple[Band, ...]
    open: bool = False
    like: tuple[int, ...] = ()
    why: str = ""
    #: Top and height of the ribbon of late arrivals, from the row's top.
    ribbon: tuple[float, float] | None = None
    top: float = 0


@dataclass(frozen=True)
class _Fold:
    """Sizes of a folded rank, the same for all of them."""

    mode: Literal["full", "line", "compact"]
    height: float
    pad: float
    gpu: float
    comm: float
    bars: int
    ribbon: float = 0


@dataclass
class _Alike:
    """Which ranks stand for others, and why ranks stand alone."""

    like: dict[int, tuple[int, ...]] = field(default_factory=dict)
    why: dict[int, str] = field(default_factory=dict)

    @property
    def hidden(self) -> set[int]:
        return {rank for stands, ranks in self.like.items() for rank in ranks if rank != stands}


def lay_rows(
    scene: Mapping[str, Any],
    room: float,
    *,
    pinned: Sequence[str] = (),
    opened: Collection[int] | None = None,
    only: Collection[int] | None = None,
    clusters: Mapping[str, Any] | None = None,
) -> list[Row]:
    """Return the rows from the top; `room` is the height that folded ranks may use to grow."""
    alike = _alike(clusters)
    ranks = [
        rank
        for rank in scene["ranks"]
        if (only is None or rank["rank"] in only)
        and (rank["rank"] not in alike.hidden or str(rank["rank"]) in pinned)
    ]
    if opened is None:
        # One rank alone looks lost when it is folded.
        opened = {rank["rank"] for rank in ranks} if len(ranks) == 1 else set()
    ribbons = any("wait" in row for rank in scene["ranks"] for row in rank["summary"])
    fold = _fold(scene["ranks"], len(ranks), room, any_open=bool(opened), ribbons=ribbons)
    first: list[tuple[int, list[Row]]] = []
    rest: list[Row] = []
    for rank in ranks:
        number = rank["rank"]
        tracks = [track for track in rank["tracks"] if track["events"] and track["lanes"]]
        is_open = number in opened and bool(tracks)
        rows = [_head(rank, fold, alike, is_open=is_open)]
        for track in tracks:
            key = f"{number}/{track['key']}"
            if key in pinned:
                name = f"rank {number} · {track['label']}"
                first.append((pinned.index(key), [_track(rank, track, name)]))
            elif is_open:
                rows.append(_track(rank, track, _track_name(rank, track)))
        if str(number) in pinned:
            first.append((pinned.index(str(number)), rows))
        else:
            rest += rows
    first.sort(key=lambda entry: entry[0])
    placed: list[Row] = []
    top = 0.0
    for row in [*(row for _, rows in first for row in rows), *rest]:
        placed.append(replace(row, top=top))
        top += row.height
    return placed


def _alike(clusters: Mapping[str, Any] | None) -> _Alike:
    if clusters is None:
        return _Alike()
    like = {
        group["representative"]: tuple(group["ranks"])
        for group in clusters["clusters"]
        if len(group["ranks"]) > 1
    }
    if not like:
        return _Alike()
    return _Alike(like, {one["rank"]: one["why"] for one in clusters["outliers"]})


# --- folded ranks ---------------------------------------------------------------------------------


def _of_role(rank: RankScene, role: str) -> list[Mapping[str, Any]]:
    return [row for row in rank["summary"] if row["role"] == role]


def _fold(
    ranks: Sequence[RankScene], count: int, room: float, *, any_open: bool, ribbons: bool
) -> _Fold:
    if any_open:
        return _Fold("line", 27, 3, 9, 13, _MOST_BARS)
    has_comm = any(_of_role(rank, "comm") for rank in ranks)
    has_gpu = has_comm or any(_of_role(rank, "gpu") for rank in ranks)
    threads = max((len(_of_role(rank, "cpu")) for rank in ranks), default=0)
    each = room // count if count else room
    device = (_GPU if has_gpu else 0) + (_COMM + _GAP if has_comm else 0)
    if count > _MANY_RANKS and has_gpu:
        height = max(_TWO_LINES - 2, _PAD + device + _BELOW)
        if each < height:
            return _compact(each, has_comm=has_comm)
        rich = height + _RIBBON + _GAP
        ribbon = _RIBBON if ribbons and rich <= each else 0
        plain = _Fold("full", rich if ribbon else height, _PAD, _GPU, _COMM, 0, ribbon)
        return _grown(plain, each)
    if count > _MANY_RANKS:
        return _Fold("compact", 18, 2, 8, 6, min(threads, _MOST_BARS))

    def full(bars: int, ribbon: int = 0) -> _Fold:
        cpu = _BEFORE_CPU + bars * (_BAR + 1) - 1 if bars else 0
        late = ribbon + _GAP if ribbon else 0
        height = max(_TWO_LINES, _PAD + device + late + cpu + _BELOW)
        return _Fold("full", height, _PAD, _GPU, _COMM, bars, ribbon)

    most = full(min(threads, _MOST_BARS))
    bars = most.bars if most.height <= each else min(threads, _BARS)
    if not ribbons:
        return _grown(full(bars), each)
    rich_fold = full(bars, _RIBBON)
    if rich_fold.height <= each:
        return _grown(rich_fold, each)
    return _grown(full(0, _RIBBON) if count > _RIBBON_FIRST else full(bars), each)


def _compact(each: float, *, has_comm: bool) -> _Fold:
    extra = max(0, min(each - 18, 14))
    for_comm = extra * 0.43 // 1 if has_comm else 0
    gpu = 8 + extra - for_comm + (0 if has_comm else 6)
    return _Fold("compact", 18 + extra, 2, gpu, 6 + for_comm, 0)


def _grown(fold: _Fold, each: float) -> _Fold:
    """Give room that is left to the device lanes, as far as they may grow."""
    most = _GROWN_GPU - fold.gpu + (_GROWN_COMM - fold.comm)
    extra = max(0, min(each - fold.height, most))
    for_gpu = int(extra * (_GROWN_GPU - fold.gpu) / most + 0.5)
    return replace(
        fold,
        height=fold.height + extra,
        gpu=fold.gpu + for_gpu,
        comm=fold.comm + extra - for_gpu,
    )


def _head(rank: RankScene, fold: _Fold, alike: _Alike, *, is_open: bool) -> Row:
    like = alike.like.get(rank["rank"], (rank["rank"],))
    own = rank["label"] or f"rank {rank['rank']}"
    names = _group_names(rank["rank"], like) if len(like) > 1 else (own,)
    bands = _folded_bands(rank, fold)
    over = next((band for band in bands if band.wait >= 0), None)
    ribbon = None
    if fold.ribbon and over is not None:
        ribbon = (over.top + over.height + _GAP, fold.ribbon)
    why = alike.why.get(rank["rank"], "")
    return Row(rank, None, names, fold.height, bands, is_open, like, why, ribbon)


def _group_names(rank: int, like: Sequence[int]) -> tuple[str, ...]:
    brief = (f"{len(like)} ranks like {rank}", f"{len(like)} like {rank}")
    runs = number_runs(like)
    return brief if len(runs) > 4 else (f"ranks {', '.join(map(run_text, runs))}", *brief)


def _folded_bands(rank: RankScene, fold: _Fold) -> tuple[Band, ...]:
    gpu, comm, threads = (_of_role(rank, role) for role in ("gpu", "comm", "cpu"))
    named = fold.mode == "full"
    if not gpu and not comm:
        return _host_bands(rank, threads, fold)
    bands: list[Band] = []
    top = fold.pad
    if gpu:
        height = fold.gpu + (fold.comm if not comm and not named else 0)
        label = gpu[0]["label"] if named else ""
        bands.append(Band(gpu[0]["lane"], top, height, "solid", label))
        top += height + _GAP
    if comm:
        row = comm[0]
        over = {"wait": row.get("wait", -1), "late": row.get("late", -1)}
        label = row["label"] if named else ""
        bands.append(Band(row["lane"], top, fold.comm, "solid", label, **over))
        top += fold.comm + _GAP + (fold.ribbon + _GAP if fold.ribbon else 0)
    if not named or not fold.bars:
        return tuple(bands)
    top += _BEFORE_CPU - _GAP
    shown = _busiest(rank, threads, fold.bars)
    label = f"CPU +{len(threads) - len(shown)}" if len(threads) > len(shown) else "CPU"
    for thread in shown:
        bands.append(Band(thread["lane"], top, _BAR, "bar", label))
        label = ""
        top += _BAR + 1
    return tuple(bands)


def _busiest(
    rank: RankScene, threads: list[Mapping[str, Any]], most: int
) -> list[Mapping[str, Any]]:
    """Return the threads with most events, in the scene's order."""
    if len(threads) <= most:
        return threads
    events = {t["label"]: t["events"] for t in rank["tracks"] if t["role"] == "thread"}
    by_events = sorted(threads, key=lambda row: -events.get(row["label"], 0))[:most]
    return [row for row in threads if row in by_events]


def _host_bands(rank: RankScene, threads: list[Mapping[str, Any]], fold: _Fold) -> tuple[Band, ...]:
    shown = _busiest(rank, threads, max(1, fold.bars))
    if not shown:
        return ()
    room = fold.height - 2 * fold.pad - (len(shown) - 1)
    height = max(2, min(12, room // len(shown)))
    named = fold.mode == "full"
    return tuple(
        Band(
            row["lane"],
            fold.pad + at * (height + 1),
            height,
            "bar",
            "CPU" if at == 0 and named else "",
        )
        for at, row in enumerate(shown)
    )


# --- tracks of opened ranks -----------------------------------------------------------------------


def _track(rank: RankScene, track: Mapping[str, Any], name: str) -> Row:
    size = "thread" if track["role"] == "other" else track["role"]
    pitch = _PITCH[size]
    form: Form = "solid"
    if size == "counter":
        form = "counter"
    elif size in {"thread", "annotation"}:
        form = "pale"
    spills = track["lanes"] if size == "counter" else max(1, track["nested"])
    whole = size == "stream" and track["lanes"] == 1
    bands = tuple(
        Band(
            track["lane0"] + depth,
            depth * pitch + 1,
            pitch if whole else pitch - 1,
            form,
            name if depth == 0 else f"+{depth - spills + 1}" if depth >= spills else "",
            track.get("wait", -1) if depth == 0 else -1,
            track.get("late", -1) if depth == 0 else -1,
            tuple(track["range"]) if "range" in track else None,
        )
        for depth in range(track["lanes"])
    )
    height = pitch * max(1, track["lanes"]) + _TRACK_BELOW[size]
    return Row(rank, track, (name,), height, bands, open=True, like=(rank["rank"],))


def _track_name(rank: RankScene, track: Mapping[str, Any]) -> str:
    label: str = track["label"]
    match track["role"]:
        case "stream":
            devices = {one["process"] for one in rank["tracks"] if one["role"] == "stream"}
            device = track["process"] if len(devices) > 1 else "GPU"
            return f"{device}  {label}{' · NCCL' if track['communication'] else ''}"
        case "thread":
            return f"CPU  {label}"
        case "instant" | "async":
            process = track["process"].removeprefix("process").strip()
            return f"{process}  {label}" if process else label
    return label
