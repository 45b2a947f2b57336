"""Compute by brute force the results that test vectors of both languages expect.

Each file in this folder holds cases: inputs and results. The results are computed from the inputs
with plain integers and loops, following docs/protocol.md and without the package, so that the
engine is never compared with itself. To add a case, write its inputs into the file and run ``python
tests/vectors/make.py``. A test checks that all results are up to date.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import struct
from fractions import Fraction
from pathlib import Path

HERE = Path(__file__).parent
CELLS = 256
COMPUTE, COMMUNICATION, MEMORY, SYNC, CPU, ANNOTATION, OTHER = range(7)
KINDS = ["compute", "communication", "memory", "sync", "cpu", "annotation", "other"]


# --- the definitions ------------------------------------------------------------------------


def overlaps(event, a, b):
    start, dur, _kind = event
    if dur == 0:
        return a <= start < b
    return start < b and start + dur > a


def union(events, a, b):
    """Return the nanoseconds of [a, b) that at least one event covers."""
    clipped = sorted((max(s, a), min(s + d, b)) for s, d, _k in events if s < b and s + d > a)
    total, reached = 0, a
    for start, end in clipped:
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def quantise(covered, cell):
    if covered == 0:
        return 0
    if covered == cell:
        return 65535
    nearest = (Fraction(covered, cell) * 65535 + Fraction(1, 2)).__floor__()
    return min(max(nearest, 1), 65534)


def kind_of(events, a, b):
    """Return the kind that covers most of a cell, the lowest code if tied; see the protocol."""
    inside = [e for e in events if overlaps(e, a, b)]
    if not inside:
        return 255
    times = {k: union([e for e in inside if e[2] == k], a, b) for k in {e[2] for e in inside}}
    most = max(times.values())
    if most == 0:
        return min(inside, key=lambda e: (e[0], e[2]))[2]
    return min(k for k, time in times.items() if time == most)


def cell_of(events, a, b):
    """Return a cell: exact time, the four columns, and the longest event's position."""
    inside = [i for i, e in enumerate(events) if overlaps(e, a, b)]
    if not inside:
        return None
    covered = union(events, a, b)
    mask = 0
    for i in inside:
        mask |= 1 << events[i][2]
    longest = min(inside, key=lambda i: (-events[i][1], events[i][0], i))
    return {
        "covered": covered,
        "busy": quantise(covered, b - a),
        "count": min(len(inside), 65535),
        "kind": kind_of(events, a, b),
        "mask": mask,
        "longest": longest,
    }


def tile_of(lane, level, index):
    """Return one tile as sparse cells and positions of its slices; None if it is empty."""
    events, cell = lane["events"], 1 << level
    first = index * CELLS
    cells = []
    for c in range(CELLS):
        result = cell_of(events, (first + c) * cell, (first + c + 1) * cell)
        if result:
            cells.append({"cell": c, **result})
    if not cells:
        return None
    a, b = first * cell, (first + CELLS) * cell
    long = [
        i for i, e in enumerate(events) if overlaps(e, a, b) and e[1] >= 2 * cell and lane["slices"]
    ]
    long.sort(key=lambda i: (events[i][0], -events[i][1], i))
    return {"lane": lane["lane"], "index": index, "cells": cells, "slices": long}


def counter_tile_of(lane, level, index, end):
    """Return min and max in each cell of a step function; None if a cell has no value."""
    samples, cell = lane["samples"], 1 << level
    first = index * CELLS
    cells = []
    for c in range(CELLS):
        a, b = (first + c) * cell, (first + c + 1) * cell
        if a >= end:
            continue
        values = [v for t, v in samples if a <= t < b]
        # Without a sample at its start, a cell begins with the previous value.
        if not any(t == a for t, _v in samples):
            values += [v for t, v in samples if t < a][-1:]
        if values:
            cells.append({"cell": c, "min": min(values), "max": max(values)})
    if not cells:
        return None
    return {"lane": lane["lane"], "index": index, "cells": cells}


# --- cases ----------------------------------------------------------------------------------


def tiles_case(given):
    """Compute the tiles of a case from its lanes and counters."""
    level, end = given["level"], given["end"]
    indices = range(given["first"], given["last"])
    return {
        **given,
        "tiles": [t for lane in given["lanes"] for i in indices if (t := tile_of(lane, level, i))],
        "counter_tiles": [
            t
            for lane in given["counters"]
            for i in indices
            if (t := counter_tile_of(lane, level, i, end))
        ],
    }


# --- packed replies ---------------------------------------------------------------------------

FORMATS = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "f64": "d"}


def pack(columns):
    """Convert ``[(name, dtype, values)]`` to the header and the single buffer."""
    header, buffer = {}, b""
    for name, dtype, values in columns:
        buffer += b"\0" * (-len(buffer) % 8)
        header[name] = [dtype, len(buffer), len(values)]
        buffer += struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)
    return header, buffer


def packed_tiles(source):
    """Return the whole reply to a case's request, as the engine would send it."""
    tiles, counters = source["tiles"], source["counter_tiles"]
    events = {lane["lane"]: lane["events"] for lane in source["lanes"]}
    ids, first, running = {}, [0], 0
    for lane in source["lanes"]:
        for i in range(len(lane["events"])):
            ids[lane["lane"], i] = running
            running += 1

    def column(field, empty):
        out = []
        for tile in tiles:
            by_cell = {c["cell"]: c[field] for c in tile["cells"]}
            out += [by_cell.get(c, empty) for c in range(CELLS)]
        return out

    def counter_column(field):
        out = []
        for tile in counters:
            by_cell = {c["cell"]: c[field] for c in tile["cells"]}
            out += [by_cell.get(c, float("nan")) for c in range(CELLS)]
        return out

    slices = []
    for tile in tiles:
        slices += [(tile["lane"], i) for i in tile["slices"]]
        first.append(len(slices))
    chosen = [events[number][i] for number, i in slices]
    columns = [
        ("tile_lane", "u32", [t["lane"] for t in tiles]),
        ("tile_index", "f64", [float(t["index"]) for t in tiles]),
        ("busy", "u16", column("busy", 0)),
        ("count", "u16", column("count", 0)),
        ("kind", "u8", column("kind", 255)),
        ("mask", "u8", column("mask", 0)),
        ("slice_first", "u32", first),
        ("slice_start", "f64", [float(e[0]) for e in chosen]),
        ("slice_dur", "f64", [float(e[1]) for e in chosen]),
        ("slice_id", "u32", [ids[key] for key in slices]),
        ("slice_name", "u32", [e[2] for e in chosen]),
        ("slice_kind", "u8", [e[2] for e in chosen]),
        ("slice_flags", "u8", [0 for _ in chosen]),
        ("counter_lane", "u32", [t["lane"] for t in counters]),
        ("counter_index", "f64", [float(t["index"]) for t in counters]),
        ("counter_min", "f32", counter_column("min")),
        ("counter_max", "f32", counter_column("max")),
    ]
    header, buffer = pack(columns)
    names = {str(e[2]): KINDS[e[2]] for e in chosen}
    return {
        "name": source["name"],
        "reply": {"level": source["level"], "columns": header, "names": names},
        "buffer": base64.b64encode(buffer).decode("ascii"),
        # JSON has no NaN, so null represents it, in the expected columns only.
        "columns": {
            name: [None if isinstance(v, float) and math.isnan(v) else v for v in values]
            for name, _, values in columns
        },
    }


def packed_compact(plain):
    """Return the same reply in the compact encoding that a page can request."""
    inputs, level = plain["columns"], plain["reply"]["level"]
    columns = []
    for name, (stated, _, _) in plain["reply"]["columns"].items():
        values = [float("nan") if value is None else value for value in inputs[name]]
        full = stated[0] == "u" or name == "slice_dur"
        if full:
            values = [int(value) for value in values]
        most = max(values, default=0) if full else 0
        if name == "mask" or (name == "slice_flags" and not any(values)):
            continue
        if name == "kind":
            halves = [15 if kind == 255 else kind for kind in values]
            pairs = zip(halves[0::2], halves[1::2], strict=True)
            columns.append(("kinds", "u8", [low + 16 * high for low, high in pairs]))
            continue
        if name == "slice_start":
            offsets = []
            for tile, index in enumerate(inputs["tile_index"]):
                first, last = inputs["slice_first"][tile : tile + 2]
                origin = int(index) * CELLS * 2**level
                offsets += [int(start) - origin for start in values[first:last]]
            if all(-(2**31) <= offset < 2**31 for offset in offsets):
                columns.append(("slice_offset", "i32", offsets))
                continue
        narrow = {
            "count": ["u8"],
            "slice_id": ["u16"],
            "slice_name": ["u8", "u16"],
            "slice_dur": ["u16", "u32"],
        }.get(name, [])
        fits = [dtype for dtype in narrow if most < 2 ** int(dtype[1:])]
        columns.append((name, (fits or [stated])[0], values))
    header, buffer = pack(columns)
    return {
        "name": f"{plain['name']}, compact",
        "plain": plain["name"],
        "reply": {**plain["reply"], "columns": header},
        "buffer": base64.b64encode(buffer).decode("ascii"),
        "columns": {name: [none_if_nan(v) for v in values] for name, _, values in columns},
    }


def none_if_nan(value):
    return None if isinstance(value, float) and math.isnan(value) else value


def packed_types():
    columns = [
        ("bytes", "u8", [0, 1, 255]),
        ("shorts", "u16", [0, 65535, 256]),
        ("empty", "f64", []),
        ("words", "u32", [4294967295, 1]),
        ("signed", "i32", [-1, -2147483648, 2147483647]),
        ("floats", "f32", [0.5, -3.25]),
        ("doubles", "f64", [float(2**53 - 1), 0.1]),
    ]
    header, buffer = pack(columns)
    return {
        "name": "every type, an empty column, and padding to 8 bytes",
        "reply": {"columns": header},
        "buffer": base64.b64encode(buffer).decode("ascii"),
        "columns": {name: values for name, _, values in columns},
    }


# --- statistics of a window -------------------------------------------------------------------


def stats_case(given):
    ranks = given["ranks"]

    def parts(rank, a, b):
        kinds = {k: [e for e in rank["device"] if e[2] == k] for k in range(3)}
        compute = union(kinds[COMPUTE], a, b)
        both = union(kinds[COMPUTE] + kinds[COMMUNICATION], a, b)
        all_three = union(kinds[COMPUTE] + kinds[COMMUNICATION] + kinds[MEMORY], a, b)
        low, high = rank["range"]
        data = max(0, min(high, b) - max(low, a))
        work = [(s, s + d) for s, d, kind in rank["device"] if kind <= MEMORY]
        first = min((start for start, _ in work), default=0)
        last = max((end for _, end in work), default=0)
        span = max(0, min(last, b) - max(first, a))
        return {
            "compute": compute,
            "communication": union(kinds[COMMUNICATION], a, b),
            "exposed": both - compute,
            "memory": all_three - both,
            "idle": span - all_three,
            "data": data,
            "span": span,
            "memory_union": union(kinds[MEMORY], a, b),
        }

    answers = []
    for a, b in ((window["start"], window["end"]) for window in given["windows"]):
        rows = [parts(rank, a, b) for rank in ranks]
        span = sum(row["span"] for row in rows)
        fields = ("compute", "communication", "exposed", "memory", "idle", "data", "span")
        kinds = {}
        if span:
            kinds = {
                "compute": sum(row["compute"] for row in rows) / span,
                "communication": sum(row["communication"] for row in rows) / span,
                "memory": sum(row["memory_union"] for row in rows) / span,
            }
        answers.append(
            {
                "start": a,
                "end": b,
                **{field: [row[field] for row in rows] for field in fields},
                "kinds": kinds,
            }
        )
    low = min(rank["range"][0] for rank in ranks)
    high = max(rank["range"][1] for rank in ranks)
    bins = given["minimap"]["bins"]
    edges = [low + (high - low) * i // bins for i in range(bins + 1)]
    columns = {"compute": [], "exposed": [], "memory": []}
    for a, b in itertools.pairwise(edges):
        rows = [parts(rank, a, b) for rank in ranks]
        for field, values in columns.items():
            total = sum(row[field] for row in rows)
            values.append(total / ((b - a) * len(ranks)) if b > a else 0.0)
    return {
        "name": given["name"],
        "ranks": ranks,
        "windows": answers,
        "minimap": {"start": low, "end": high, "bins": bins, **columns},
    }


# --- waits between ranks ----------------------------------------------------------------------


def covers(intervals, t):
    """Return whether the nanosecond after `t` is in one of ``(start, end)``."""
    return any(a <= t < b for a, b in intervals)


def runs(owner_at, low, high):
    """Return maximal stretches with one owner as ``[start, dur, owner]``; None: no owner."""
    result, since, owner = [], low, None
    for t in range(low, high + 1):
        now = owner_at(t) if t < high else None
        if now != owner:
            if owner is not None:
                result.append([since, t - since, owner])
            since, owner = t, now
    return result


def calls_of(given, *fields):
    """Return each collective of a case as ``{rank: its fields}``."""
    calls = {}
    for rank in given["ranks"]:
        for entry in rank["entries"]:
            calls.setdefault(entry["call"], {})[rank["rank"]] = tuple(
                entry[name] for name in fields
            )
    return [calls[number] for number in sorted(calls)]


def lateness_case(given):
    """Compute the waits of a case from starts and durations on each rank's own clock.

    A rank's `clock` is added to its starts to compare them with others; `late` lists the ranks that
    the others wait for in the whole job.
    """
    calls, late = calls_of(given, "start", "dur", "track"), given["late"]
    clocks = {rank["rank"]: rank["clock"] for rank in given["ranks"]}
    compute = {rank["rank"]: rank["compute"] for rank in given["ranks"]}
    numbers = sorted({rank for call in calls for rank in call})
    entries = {rank: [] for rank in numbers}
    for number, call in enumerate(calls):
        arrival = {rank: item[0] + clocks[rank] for rank, item in call.items()}
        last = max(arrival.values())
        came_last = [rank for rank, time in arrival.items() if time == last]
        others = sorted(time for rank, time in arrival.items() if rank not in came_last)
        # A rank that leaves before the last arrival stops waiting when it leaves.
        waits = {rank: min(last - arrival[rank], dur) for rank, (_, dur, _) in call.items()}
        for rank, (start, dur, track) in call.items():
            alone = came_last == [rank] and bool(others)
            middle = (
                (others[(len(others) - 1) // 2] + others[len(others) // 2]) // 2 if alone else 0
            )
            entries[rank].append(
                {
                    "call": number,
                    "start": start,
                    "dur": dur,
                    "track": track,
                    "wait": waits[rank],
                    "late": last - middle if alone else 0,
                    "imposed": sum(waits.values()) if alone else 0,
                    "last_alone": came_last[0] if len(came_last) == 1 and others else -1,
                }
            )
    ranks = []
    for rank in numbers:
        own = sorted(entries[rank], key=lambda item: (item["start"], -item["dur"], item["call"]))
        for at, item in enumerate(own):
            item["id"] = at
        ranks.append(
            {"rank": rank, "clock": clocks[rank], "compute": compute[rank], "entries": own}
        )
        ranks[-1].update(lateness_lanes(own))
    return {
        "name": given["name"],
        "why": given["why"],
        "late": late,
        "ranks": ranks,
        "windows": [
            lateness_window(ranks, item["start"], item["end"], late) for item in given["windows"]
        ],
    }


def lateness_lanes(own):
    """Return one rank's lanes as ``[start, dur, id]``: own waits, all waits folded, late times."""
    waits = [[e["start"], e["wait"], e["id"]] for e in own if e["wait"]]
    waits.sort(key=lambda piece: (piece[0], -piece[1], piece[2]))
    lates = [[e["start"] - e["late"], e["late"], e["id"]] for e in own if e["late"]]
    lates.sort(key=lambda piece: (piece[0], -piece[1], piece[2]))
    transfers = [(e["start"] + e["wait"], e["start"] + e["dur"]) for e in own]

    def owner_at(t):
        if covers(transfers, t):
            return None
        return next((piece[2] for piece in waits if piece[0] <= t < piece[0] + piece[1]), None)

    low = min((piece[0] for piece in waits), default=0)
    high = max((piece[0] + piece[1] for piece in waits), default=0)
    return {"waits": waits, "folded": runs(owner_at, low, high), "lates": lates}


def lateness_window(ranks, a, b, of_job):
    figures = {name: [] for name in ("collectives", "last", "wait", "exposed_wait", "imposed")}
    for rank in ranks:
        inside = [e for e in rank["entries"] if overlaps((e["start"], e["dur"], 0), a, b)]
        waits = [(start, start + dur) for start, dur, _ in rank["waits"]]
        waited = [t for t in range(a, b) if covers(waits, t)]
        figures["collectives"].append(len(inside))
        figures["last"].append(sum(e["late"] > 0 for e in inside))
        figures["wait"].append(len(waited))
        figures["exposed_wait"].append(sum(not covers(rank["compute"], t) for t in waited))
        figures["imposed"].append(sum(e["imposed"] for e in inside))
    imposed = dict(zip((rank["rank"] for rank in ranks), figures["imposed"], strict=True))
    late = [rank for rank in imposed if rank in of_job and imposed[rank]]
    for_late = []
    for rank in ranks:
        theirs = [
            (entry["start"], entry["start"] + entry["wait"])
            for entry in rank["entries"]
            if entry["last_alone"] in late
        ]
        for_late.append(sum(covers(theirs, t) for t in range(a, b)))
    return {"start": a, "end": b, **figures, "wait_for_late": for_late, "late": late}


# --- late ranks -------------------------------------------------------------------------------


WINDOW = ("start", "end", "bins", "ranks")


def ribbon_case(given):
    """Compute the marks of a case from starts on each rank's own clock, and names of calls."""
    calls = calls_of(given, "start", "name")
    clocks = {rank["rank"]: rank["clock"] for rank in given["ranks"]}
    entries, jobs = [], []
    for number, call in enumerate(calls):
        arrival = {rank: start + clocks[rank] for rank, (start, _) in sorted(call.items())}
        in_order = sorted(arrival.values())
        median, last = in_order[(len(in_order) - 1) // 2], in_order[-1]
        ours = [
            {
                "rank": rank,
                "call": number,
                "start": call[rank][0],
                "wait": last - time,
                "late": max(time - median, 0),
                "name": call[rank][1],
            }
            for rank, time in arrival.items()
        ]
        entries += ours
        waited = sum(item["wait"] for item in ours)
        jobs.append((ours, waited // (len(ours) - 1) if len(ours) > 1 else waited))
    entries.sort(key=lambda item: (item["rank"], item["start"], item["call"]))
    for rank in sorted({item["rank"] for item in entries}):
        for at, item in enumerate(item for item in entries if item["rank"] == rank):
            item["id"] = at
    ends = []
    for ours, wait in jobs:
        came_last = [item for item in ours if item["wait"] == 0]
        # If several are at the same time, the event of the highest rank counts.
        alone = len(ours) > 1 and len(came_last) == 1
        ends.append({**came_last[-1], "wait": wait, "who": came_last[-1]["rank"] if alone else -1})
    expected = sorted({item["name"] for item in entries})
    return {
        "name": given["name"],
        "why": given["why"],
        "ranks": [
            {"rank": rank, "clock": clocks[rank], "entries": own}
            for rank in sorted({item["rank"] for item in entries})
            if (own := [item for item in entries if item["rank"] == rank])
        ],
        "reply": {
            "names": expected,
            "of": len(calls),
            "most": max((item["late"] for item in entries), default=0),
            "job_most": max((item["wait"] for item in ends), default=0),
        },
        "windows": [
            ribbon_window(entries, ends, expected, *(item[name] for name in WINDOW))
            for item in given["windows"]
        ],
    }


def ribbon_window(entries, ends, names, a, b, bins, ranks):
    def kept(of, key, value):
        """Return the largest value by key, the first one if tied."""
        best = {}
        for item in of:
            if a <= item["start"] < b:
                best.setdefault(key(item), []).append(item)
        return [(at, max(best[at], key=value)) for at in sorted(best)]

    def place(entry):
        return (entry["start"] - a) * bins // (b - a)

    requested = [entry for entry in entries if ranks is None or entry["rank"] in ranks]
    marks = kept(
        requested, lambda entry: (entry["rank"], place(entry)), lambda entry: entry["late"]
    )
    jobs = kept(ends, place, lambda entry: entry["wait"])
    columns = {
        "rank": [rank for (rank, _), _ in marks],
        "bin": [at for (_, at), _ in marks],
        "late": [entry["late"] for _, entry in marks],
        "call": [entry["call"] + 1 for _, entry in marks],
        "name": [names.index(entry["name"]) for _, entry in marks],
        "id": [entry["id"] for _, entry in marks],
        "job_bin": [at for at, _ in jobs],
        "job_time": [entry["start"] for _, entry in jobs],
        "job_wait": [entry["wait"] for _, entry in jobs],
        "job_rank": [entry["who"] for _, entry in jobs],
        "job_call": [entry["call"] + 1 for _, entry in jobs],
        "job_name": [names.index(entry["name"]) for _, entry in jobs],
        "job_id": [entry["id"] for _, entry in jobs],
    }
    return {"start": a, "end": b, "bins": bins, "ranks": ranks, "columns": columns}


#: Cases in tiles.json whose whole replies are in packed.json.
PACKED = [
    "events across tiles",
    "events without length",
    "counters",
    "slices far from the start of their tile",
]


def documents():
    """Return the files with results for all cases."""

    def computed(name, case):
        inputs = json.loads((HERE / name).read_text("utf-8"))
        return {**inputs, "cases": [case(example) for example in inputs["cases"]]}

    tiles = computed("tiles.json", tiles_case)
    by_name = {one["name"]: one for one in tiles["cases"]}
    plain = [packed_tiles(by_name[name]) for name in PACKED]
    return {
        "tiles.json": tiles,
        "packed.json": {"replies": [packed_types(), *plain, *map(packed_compact, plain)]},
        "stats.json": computed("stats.json", stats_case),
        "lateness.json": computed("lateness.json", lateness_case),
        "ribbon.json": computed("ribbon.json", ribbon_case),
    }


def text_of(document):
    """Return JSON with one innermost list or object per line, for small diffs and short lines."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.replace('},{"', '},\n{"') + "\n"


if __name__ == "__main__":
    for file_name, document in documents().items():
        (HERE / file_name).write_text(text_of(document), encoding="utf-8")
