"""Writes the test vectors that both languages read, by brute force.

Plain integers and loops, straight from docs/protocol.md, and nothing of the package: a mistake in
the engine cannot hide in its own expectation. Run ``python tests/vectors/make.py`` after a change
of the protocol; a test checks that the files are what this script writes.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import random
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
    """Nanoseconds of [a, b) that at least one of the events covers."""
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
    """Kind that covers most of the cell, the lowest code among equals; see the protocol."""
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
        found = cell_of(events, (first + c) * cell, (first + c + 1) * cell)
        if found:
            cells.append({"cell": c, **found})
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
        # Without a sample at its very start, a cell begins with the value that came before.
        if not any(t == a for t, _v in samples):
            values += [v for t, v in samples if t < a][-1:]
        if values:
            cells.append({"cell": c, "min": min(values), "max": max(values)})
    if not cells:
        return None
    return {"lane": lane["lane"], "index": index, "cells": cells}


# --- cases ----------------------------------------------------------------------------------


def lane(number, events, slices=True):
    return {
        "lane": number,
        "slices": slices,
        "events": [list(e) for e in sorted(events, key=by_start)],
    }


def by_start(event):
    return (event[0], -event[1], event[2])


def case(name, why, level, tiles, lanes, counters=(), end=None):
    answered = [t for one in lanes for i in range(*tiles) if (t := tile_of(one, level, i))]
    counted = [
        t for one in counters for i in range(*tiles) if (t := counter_tile_of(one, level, i, end))
    ]
    return {
        "name": name,
        "why": why,
        "level": level,
        "first": tiles[0],
        "last": tiles[1],
        "end": end,
        "lanes": list(lanes),
        "counters": list(counters),
        "tiles": answered,
        "counter_tiles": counted,
    }


def random_events(rng, count, longest, gap, kinds):
    events, now = [], 0
    for _ in range(count):
        now += rng.randrange(gap)
        dur = rng.randrange(longest) if rng.random() > 0.15 else 0
        events.append((now, dur, rng.choice(kinds)))
        now += dur
    return events


FAR = "slices far from the start of their tile"


def cases():
    rng = random.Random(20240229)
    yield case(
        "nested lanes and their summary",
        "Each depth is a lane; the thread's summary covers their union once and has no slices.",
        4,
        (0, 2),
        [
            lane(0, [(3, 4000, CPU), (4100, 1500, ANNOTATION)]),
            lane(1, [(10, 900, CPU), (1000, 2800, CPU), (4200, 30, SYNC)]),
            lane(2, [(20, 5, CPU), (1100, 1000, SYNC), (2200, 7, CPU)]),
            lane(
                3,
                [
                    (3, 4000, CPU),
                    (10, 900, CPU),
                    (20, 5, CPU),
                    (1000, 2800, CPU),
                    (1100, 1000, SYNC),
                    (2200, 7, CPU),
                    (4200, 30, SYNC),
                ],
                slices=False,
            ),
        ],
    )
    yield case(
        "overlapping streams in one summary lane",
        "Two streams run at once: time is counted once, events twice.",
        5,
        (0, 1),
        [
            lane(
                7,
                [
                    (0, 640, COMPUTE),
                    (320, 640, COMPUTE),
                    (900, 20, MEMORY),
                    (960, 64, COMPUTE),
                    (1000, 1000, MEMORY),
                    (1500, 900, COMPUTE),
                    (3000, 1, COMPUTE),
                    (3001, 1, MEMORY),
                ],
            )
        ],
    )
    yield case(
        "events without length",
        "They belong to the cell of their instant, give no time, and decide the kind only alone.",
        3,
        (0, 1),
        [
            lane(
                0,
                [
                    (0, 0, CPU),
                    (7, 0, CPU),
                    (8, 0, SYNC),
                    (15, 0, CPU),
                    (16, 0, CPU),
                    (16, 0, SYNC),
                    (40, 4, COMPUTE),
                    (42, 0, MEMORY),
                    (63, 0, OTHER),
                    (64, 8, CPU),
                    (72, 0, SYNC),
                    (100, 0, SYNC),
                    (98, 0, CPU),
                    (2047, 0, CPU),
                    (2048, 0, CPU),
                ],
            ),
            lane(1, [(1024, 0, ANNOTATION)]),
        ],
    )
    yield case(
        "events across tiles",
        "An event travels with each tile that it overlaps; touching a tile is not overlapping.",
        2,
        (0, 5),
        [
            lane(0, [(100, 2900, COMPUTE), (3000, 72, MEMORY), (3072, 1024, COMPUTE)]),
            lane(
                1, [(1016, 8, COMPUTE), (1024, 7, COMPUTE), (1031, 8, COMPUTE), (2047, 2, MEMORY)]
            ),
        ],
    )
    yield case(
        FAR,
        "Seconds to minutes: more than 32 bits of ns hold.",
        30,
        (0, 2),
        [lane(0, [(7, 5 << 32, COMPUTE), (200 << 30, (100 << 30) + 1, MEMORY)])],
    )
    yield case(
        "exactly full, almost full, almost empty",
        "65535 means full and 0 means empty, however close the rounding comes.",
        20,
        (0, 1),
        [
            lane(
                0,
                [
                    (0, 1 << 20, COMPUTE),
                    (1 << 20, (1 << 20) - 1, COMPUTE),
                    ((2 << 20) + 5, 1, COMPUTE),
                    ((3 << 20) + 1, (1 << 20) - 1, COMPUTE),
                    ((4 << 20) + 7, 8, COMPUTE),
                    ((5 << 20) + 7, 24, COMPUTE),
                    (6 << 20, 1 << 19, COMPUTE),
                    (7 << 20, 3 << 18, COMPUTE),
                ],
            )
        ],
    )
    yield case(
        "mixed kinds and ties",
        "Most time wins, not the longest or the first event; among equals the lowest code.",
        4,
        (0, 1),
        [
            lane(
                0,
                [
                    (0, 4, MEMORY),
                    (4, 4, COMPUTE),
                    (8, 5, OTHER),
                    (16, 3, ANNOTATION),
                    (19, 2, CPU),
                    (21, 2, CPU),
                    (32, 8, CPU),
                    (40, 8, SYNC),
                    (48, 2, CPU),
                    (50, 1, SYNC),
                    (51, 2, SYNC),
                    (60, 20, OTHER),
                    (80, 16, COMMUNICATION),
                ],
            )
        ],
    )
    yield case(
        "deepest zoom",
        "At level 0 a cell is one nanosecond: each is full or empty, and slices begin at 2 ns.",
        0,
        (4, 6),
        [
            lane(
                0, [(1020, 6, CPU), (1026, 1, CPU), (1028, 2, CPU), (1100, 0, CPU), (1278, 4, CPU)]
            ),
            lane(1, [(1000, 2000, ANNOTATION)]),
        ],
    )
    yield case(
        "far out",
        "A cell of 2^31 ns holds thousands of events; nothing is lost and nothing is a slice.",
        31,
        (0, 2),
        [
            lane(
                0,
                [(k * 700_000_003, 90_000_001, COMPUTE) for k in range(300)]
                + [(900_000_000_000 + k, 1, MEMORY) for k in range(0, 40, 2)],
            ),
            lane(1, [(1 << 39, 0, SYNC)]),
        ],
    )
    yield case(
        "rounding overlap",
        "Events of one lane that overlap by the file's own rounding: time once, both counted.",
        3,
        (0, 1),
        [
            lane(
                0,
                [
                    (0, 10, COMPUTE),
                    (9, 11, MEMORY),
                    (19, 2, COMPUTE),
                    (64, 24, MEMORY),
                    (87, 1, CPU),
                ],
            )
        ],
    )
    yield case(
        "random lane",
        "Gaps, points and durations of all sizes.",
        6,
        (0, 3),
        [
            lane(0, random_events(rng, 250, 400, 90, [CPU, CPU, CPU, SYNC, ANNOTATION])),
            lane(1, random_events(rng, 180, 700, 40, [COMPUTE])),
            lane(
                2,
                random_events(rng, 90, 500, 300, [COMPUTE, MEMORY])
                + random_events(rng, 90, 500, 300, [COMPUTE, MEMORY, OTHER]),
            ),
        ],
    )
    yield case(
        "counters",
        "A value holds until the next sample, up to the end of the rank's data.",
        4,
        (0, 2),
        [],
        counters=[
            {"lane": 0, "samples": [[100, 1.5], [104, 8.0], [111, -2.25], [112, 3.0], [512, 3.5]]},
            {"lane": 1, "samples": [[4096, 1.0], [4096, 2.0], [4099, 0.5]]},
            {"lane": 2, "samples": [[9000, 1.0]]},
        ],
        end=6000,
    )


# --- packed replies ---------------------------------------------------------------------------

FORMATS = {"u8": "B", "u16": "H", "u32": "I", "i32": "i", "f32": "f", "f64": "d"}


def pack(columns):
    """``[(name, dtype, values)]`` to the header and the one buffer."""
    header, buffer = {}, b""
    for name, dtype, values in columns:
        buffer += b"\0" * (-len(buffer) % 8)
        header[name] = [dtype, len(buffer), len(values)]
        buffer += struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)
    return header, buffer


def packed_tiles(source):
    """The whole answer to a case's request, as the engine would send it."""
    tiles, counters = source["tiles"], source["counter_tiles"]
    events = {one["lane"]: one["events"] for one in source["lanes"]}
    ids, first, running = {}, [0], 0
    for one in source["lanes"]:
        for i in range(len(one["events"])):
            ids[one["lane"], i] = running
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
        # JSON has no NaN: null stands for it in the expected columns only.
        "columns": {
            name: [None if isinstance(v, float) and math.isnan(v) else v for v in values]
            for name, _, values in columns
        },
    }


def packed_compact(plain):
    """The same answer for a page that asks for it compact."""
    given, level = plain["columns"], plain["reply"]["level"]
    columns = []
    for name, (stated, _, _) in plain["reply"]["columns"].items():
        values = [float("nan") if value is None else value for value in given[name]]
        whole = stated[0] == "u" or name == "slice_dur"
        if whole:
            values = [int(value) for value in values]
        most = max(values, default=0) if whole else 0
        if name == "mask" or (name == "slice_flags" and not any(values)):
            continue
        if name == "kind":
            halves = [15 if kind == 255 else kind for kind in values]
            pairs = zip(halves[0::2], halves[1::2], strict=True)
            columns.append(("kinds", "u8", [low + 16 * high for low, high in pairs]))
            continue
        if name == "slice_start":
            offsets = []
            for tile, index in enumerate(given["tile_index"]):
                first, last = given["slice_first"][tile : tile + 2]
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


def stats_case(name, ranks, windows, bins):
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
    for a, b in windows:
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
    edges = [low + (high - low) * i // bins for i in range(bins + 1)]
    columns = {"compute": [], "exposed": [], "memory": []}
    for a, b in itertools.pairwise(edges):
        rows = [parts(rank, a, b) for rank in ranks]
        for field, values in columns.items():
            total = sum(row[field] for row in rows)
            values.append(total / ((b - a) * len(ranks)) if b > a else 0.0)
    return {
        "name": name,
        "ranks": ranks,
        "windows": answers,
        "minimap": {"start": low, "end": high, "bins": bins, **columns},
    }


def stats_cases():
    rng = random.Random(5)
    first = [(0, 100, 0), (50, 100, 1), (140, 30, 2), (160, 40, 0), (300, 50, 1), (340, 20, 2)]
    second = [(10, 90, 0), (80, 10, 0), (120, 60, 1), (150, 60, 1), (400, 0, 0), (410, 5, 6)]
    yield stats_case(
        "two ranks by hand",
        [
            {"rank": 0, "range": [0, 500], "device": [list(e) for e in first]},
            {"rank": 3, "range": [5, 420], "device": [list(e) for e in second]},
        ],
        [(0, 500), (60, 150), (0, 1), (-50, 1000), (499, 500), (450, 460)],
        37,
    )
    ranks = []
    for rank in range(3):
        device = []
        for kind in (0, 0, 1, 2, 6):
            busy = random_events(rng, 60, 900, 500, [0])
            device += [(s + rank * 11, d, kind) for s, d, _ in busy]
        device.sort(key=by_start)
        end = max(s + d for s, d, _ in device) + 1000
        ranks.append({"rank": rank, "range": [0, end], "device": [list(e) for e in device]})
    yield stats_case("random streams", ranks, [(0, 40_000), (3_333, 7_777), (20_001, 20_002)], 100)
    yield stats_case(
        "no device events",
        [{"rank": 0, "range": [0, 100], "device": []}],
        [(0, 100), (20, 300)],
        10,
    )


# --- waits between ranks ----------------------------------------------------------------------


def covers(intervals, t):
    """Whether the nanosecond after `t` is in one of ``(start, end)``."""
    return any(a <= t < b for a, b in intervals)


def runs(owner_at, low, high):
    """``[start, dur, owner]`` of the longest stretches of one owner; None: no owner."""
    found, since, owner = [], low, None
    for t in range(low, high + 1):
        now = owner_at(t) if t < high else None
        if now != owner:
            if owner is not None:
                found.append([since, t - since, owner])
            since, owner = t, now
    return found


def lateness_case(name, why, calls, windows, clocks=None, compute=None, late=()):
    """`calls`: of each collective ``{rank: (start, dur)}``, or ``{rank: (start, dur, track)}``.

    `clocks`: by rank, the offset to add to its starts to compare them with others;
    `late`: whom the others wait for, in the whole job.
    """
    clocks, compute = clocks or {}, compute or {}
    numbers = sorted({rank for call in calls for rank in call})
    entries = {rank: [] for rank in numbers}
    for number, call in enumerate(calls):
        arrival = {rank: one[0] + clocks.get(rank, 0) for rank, one in call.items()}
        last = max(arrival.values())
        came_last = [rank for rank, time in arrival.items() if time == last]
        others = sorted(time for rank, time in arrival.items() if rank not in came_last)
        # Whoever leaves before the last one comes waits no longer.
        waits = {rank: min(last - arrival[rank], dur) for rank, (_, dur, *_) in call.items()}
        for rank, (start, dur, *track) in call.items():
            alone = came_last == [rank] and bool(others)
            middle = (
                (others[(len(others) - 1) // 2] + others[len(others) // 2]) // 2 if alone else 0
            )
            entries[rank].append(
                {
                    "call": number,
                    "start": start,
                    "dur": dur,
                    "track": track[0] if track else 0,
                    "wait": waits[rank],
                    "late": last - middle if alone else 0,
                    "imposed": sum(waits.values()) if alone else 0,
                    "last_alone": came_last[0] if len(came_last) == 1 and others else -1,
                }
            )
    ranks = []
    for rank in numbers:
        own = sorted(entries[rank], key=lambda one: (one["start"], -one["dur"], one["call"]))
        for at, one in enumerate(own):
            one["id"] = at
        busy = [(s, s + d) for s, d in compute.get(rank, ())]
        ranks.append({"rank": rank, "clock": clocks.get(rank, 0), "compute": busy, "entries": own})
        ranks[-1].update(lateness_lanes(own))
    return {
        "name": name,
        "why": why,
        "late": list(late),
        "ranks": ranks,
        "windows": [lateness_window(ranks, a, b, late) for a, b in windows],
    }


def lateness_lanes(own):
    """The lanes of one rank as ``[start, dur, id]``: each event's own wait, all folded, late."""
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
            (one["start"], one["start"] + one["wait"])
            for one in rank["entries"]
            if one["last_alone"] in late
        ]
        for_late.append(sum(covers(theirs, t) for t in range(a, b)))
    return {"start": a, "end": b, **figures, "wait_for_late": for_late, "late": late}


def lateness_cases():
    yield lateness_case(
        "three ranks by hand",
        "Late is counted from the median of the others, waiting from the own arrival.",
        [
            {0: (0, 60), 1: (10, 50), 2: (50, 10)},
            {0: (100, 100), 1: (130, 70), 2: (130, 70)},
            {0: (300, 20), 1: (300, 20), 2: (310, 10)},
        ],
        [(0, 400), (0, 25), (55, 60), (60, 100), (120, 131), (-50, 10), (310, 311)],
        compute={0: [(20, 10), (40, 100)], 2: [(0, 50)]},
        late=(2,),
    )
    yield lateness_case(
        "a wait within another collective's transfer",
        "On one lane a moment of transfer is no wait; each event keeps its own wait.",
        [
            # Waits 0-10 and transfers 10-40; meanwhile waits 5-30 and transfers 30-50.
            {0: (0, 40, 0), 1: (10, 30, 0)},
            {0: (5, 45, 1), 1: (30, 20, 1)},
            # Waits 100-200; meanwhile waits 120-130 and transfers 130-150.
            {0: (100, 110, 0), 1: (200, 10, 0)},
            {0: (120, 30, 1), 1: (130, 20, 1)},
            # Two that begin together: the longer wait has them both.
            {0: (300, 20, 0), 1: (310, 10, 0)},
            {0: (300, 40, 1), 1: (330, 10, 1)},
        ],
        [(0, 400), (5, 30), (125, 145), (300, 312)],
        compute={0: [(0, 7), (140, 20)]},
    )
    yield lateness_case(
        "waits that overlap, touch and outlast their events",
        "A moment of several waits is of the one that began first.",
        [
            {0: (0, 30), 1: (20, 10)},
            {0: (10, 50), 1: (40, 20)},
            {0: (15, 10), 1: (18, 7)},
            {0: (60, 10), 1: (70, 1)},
            {0: (70, 20), 1: (90, 0)},
            {0: (200, 5), 1: (230, 9)},
        ],
        [(0, 300), (12, 90), (90, 91), (210, 229)],
    )
    yield lateness_case(
        "clocks that differ",
        "Arrivals are compared on one clock, and shown on each rank's own.",
        [
            {0: (100, 60), 3: (1100, 60), 7: (50, 20)},
            {0: (200, 60), 3: (1215, 45), 7: (120, 50)},
            {0: (300, 60), 3: (1300, 60)},
        ],
        [(0, 2000), (1100, 1220), (100, 101)],
        clocks={3: -1000, 7: 90},
    )
    steady = [{0: (50 * k, 20), 1: (50 * k + 2, 18), 2: (50 * k + 8, 12)} for k in range(8)]
    yield lateness_case(
        "whom the others wait for",
        "Of those of the whole job the ones that somebody waits for in the window.",
        [
            *steady,
            {0: (500, 20), 1: (508, 12), 2: (500, 20)},
            {0: (550, 20), 1: (558, 12), 2: (500, 70)},
        ],
        [
            (0, 150), (0, 160), (0, 500), (0, 2000), (0, 2800), (0, 2801), (300, 600), (350, 600),
            (250, 600), (1000, 1001),
        ],
        late=(2, 1),
    )  # fmt: skip
    rng = random.Random(77)
    calls, free = [], 0
    for _ in range(40):
        free += rng.randrange(45)
        members = rng.sample(range(4), rng.randrange(2, 5))
        slow = rng.choice((2, 2, rng.randrange(4)))
        starts = {rank: free + rng.randrange(30) + 25 * (rank == slow) for rank in members}
        last = max(starts.values())
        calls.append(
            {
                rank: (start, max(last + rng.randrange(1, 40) - start, 0), rng.randrange(2))
                for rank, start in sorted(starts.items())
            }
        )
    windows = [(a := rng.randrange(1000), a + 1 + rng.randrange(900)) for _ in range(20)]
    yield lateness_case(
        "random calls",
        "Groups of some ranks on two streams, under compute that comes and goes.",
        calls,
        windows,
        compute={rank: [(17 * k + rank, 3 + k % 9) for k in range(80)] for rank in (0, 2, 3)},
        late=(2,),
    )


# --- late ranks -------------------------------------------------------------------------------


def ribbon_case(name, why, calls, windows, clocks=None, names=None):
    """`calls`: of each collective ``{rank: start}``; `names`: what each call is called.

    A call's name may be ``{rank: name}``. `windows`: ``(start, end, bins, ranks)``.
    """
    clocks, names = clocks or {}, names or ["all_reduce"] * len(calls)
    entries, jobs = [], []
    for number, call in enumerate(calls):
        arrival = {rank: start + clocks.get(rank, 0) for rank, start in sorted(call.items())}
        in_order = sorted(arrival.values())
        median, last = in_order[(len(in_order) - 1) // 2], in_order[-1]
        called = names[number]
        mine = [
            {
                "rank": rank,
                "call": number,
                "start": call[rank],
                "wait": last - time,
                "late": max(time - median, 0),
                "name": called[rank] if isinstance(called, dict) else called,
            }
            for rank, time in arrival.items()
        ]
        entries += mine
        waited = sum(one["wait"] for one in mine)
        jobs.append((mine, waited // (len(mine) - 1) if len(mine) > 1 else waited))
    entries.sort(key=lambda one: (one["rank"], one["start"], one["call"]))
    for rank in sorted({one["rank"] for one in entries}):
        for at, one in enumerate(one for one in entries if one["rank"] == rank):
            one["id"] = at
    ends = []
    for mine, wait in jobs:
        came_last = [one for one in mine if one["wait"] == 0]
        # Of several at the same time, the event of the highest rank.
        alone = len(mine) > 1 and len(came_last) == 1
        ends.append({**came_last[-1], "wait": wait, "who": came_last[-1]["rank"] if alone else -1})
    known = sorted({one["name"] for one in entries})
    return {
        "name": name,
        "why": why,
        "ranks": [
            {"rank": rank, "clock": clocks.get(rank, 0), "entries": own}
            for rank in sorted({one["rank"] for one in entries})
            if (own := [one for one in entries if one["rank"] == rank])
        ],
        "reply": {
            "names": known,
            "of": len(calls),
            "most": max((one["late"] for one in entries), default=0),
            "job_most": max((one["wait"] for one in ends), default=0),
        },
        "windows": [ribbon_window(entries, ends, known, *window) for window in windows],
    }


def ribbon_window(entries, ends, names, a, b, bins, ranks):
    def kept(of, key, value):
        """By key: the largest value, the first among equals."""
        best = {}
        for one in of:
            if a <= one["start"] < b:
                best.setdefault(key(one), []).append(one)
        return [(at, max(best[at], key=value)) for at in sorted(best)]

    def place(one):
        return (one["start"] - a) * bins // (b - a)

    asked = [one for one in entries if ranks is None or one["rank"] in ranks]
    marks = kept(asked, lambda one: (one["rank"], place(one)), lambda one: one["late"])
    jobs = kept(ends, place, lambda one: one["wait"])
    columns = {
        "rank": [rank for (rank, _), _ in marks],
        "bin": [at for (_, at), _ in marks],
        "late": [one["late"] for _, one in marks],
        "call": [one["call"] + 1 for _, one in marks],
        "name": [names.index(one["name"]) for _, one in marks],
        "id": [one["id"] for _, one in marks],
        "job_bin": [at for at, _ in jobs],
        "job_time": [one["start"] for _, one in jobs],
        "job_wait": [one["wait"] for _, one in jobs],
        "job_rank": [one["who"] for _, one in jobs],
        "job_call": [one["call"] + 1 for _, one in jobs],
        "job_name": [names.index(one["name"]) for _, one in jobs],
        "job_id": [one["id"] for _, one in jobs],
    }
    return {"start": a, "end": b, "bins": bins, "ranks": ranks, "columns": columns}


def ribbon_cases():
    yield ribbon_case(
        "four ranks by hand",
        "Late is counted from the earlier one of two middle ranks; who is before it is not late.",
        [
            {0: 0, 1: 10, 2: 50, 3: 20},
            {0: 1000, 1: 1030, 2: 1030, 3: 1000},
            {0: 1500, 3: 1580},
        ],
        [
            (0, 2000, 200, None), (0, 2000, 1, None), (5, 1030, 41, [1, 3]), (0, 2000, 7, []),
            (1030, 1031, 65536, None), (1031, 1500, 3, None), (-700, 51, 13, [2, 9]),
        ],
        names=["all_reduce", {0: "größe", 1: "Bcast", 2: "bcast", 3: "größe"}, "broadcast"],
    )  # fmt: skip
    yield ribbon_case(
        "equals in one bin",
        "Of equally late arrivals, and of equally costly calls, the first stands for the bin.",
        [
            {0: 0, 1: 10},
            {0: 20, 1: 30},
            # Together, out of order: no rank is late, and the call after it comes before it.
            {0: 70, 1: 70},
            {0: 50, 1: 60},
            {0: 100, 1: 90},
        ],
        [(0, 200, 1, None), (0, 200, 2, None), (0, 200, 5, None), (55, 101, 3, None)],
        names=["b", "a", "c", "a", "b"],
    )
    yield ribbon_case(
        "clocks that differ",
        "Arrivals are compared on one clock, and shown on each rank's own.",
        [{0: 100, 3: 1100, 7: 50}, {0: 200, 3: 1215, 7: 120}, {0: 300, 3: 1300}],
        [(0, 2000, 100, None), (0, 1200, 9, None), (1000, 1250, 4, [0, 3])],
        clocks={3: -1000, 7: 90},
    )
    day = 86_400 * 10**9
    yield ribbon_case(
        "a whole day",
        "Time within the window times the number of bins leaves 2^53.",
        [{0: k * day // 7 + k, 1: k * day // 7 + 3 * k} for k in range(8)],
        [(0, day + 9, 65536, None), (1, day, 65535, [1]), (day // 7, day + 30, 7, None)],
    )
    yield ribbon_case("nothing", "A job without collectives.", [], [(0, 10, 5, None)])
    rng = random.Random(31)
    calls, free = [], 0
    for _ in range(120):
        free += rng.randrange(60)
        members = rng.sample(range(5), rng.randrange(1, 6))
        calls.append({rank: free + rng.randrange(12) for rank in members})
    windows = [
        (
            a := rng.randrange(-50, 3500),
            a + 1 + rng.randrange(3000),
            rng.randrange(1, 150),
            rng.choice((None, None, [0, 2], [4])),
        )
        for _ in range(16)
    ]
    yield ribbon_case(
        "random calls",
        "Groups of some ranks, often several at once, on clocks that differ.",
        calls,
        [*windows, (0, 5000, 40, None)],
        clocks={1: 4, 4: -3},
        names=[rng.choice(("all_reduce", "barrier", "All", "z")) for _ in calls],
    )


# --- search texts -------------------------------------------------------------------------------


def search_cases():
    names = [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "aten::copy_",
        "aten::/odd/",
        "Memcpy DtoH (Device -> Pageable)",
        "<img src=x onerror=alert(1)>",
        "CUDAFunctor_add<float>",
        "größe",
        "",
    ]
    texts = {
        "nccl": [0],
        "NCCL": [0],
        "aten::": [1, 2],
        "/^aten/": [1, 2],
        "/ATEN/": [],
        "/ATEN/i": [1, 2],
        "/f32|float/": [0, 5],
        "(": [0, 3, 4],
        "->": [3],
        "/": [2],
        "/odd": [2],
        "//": [],
        "GRÖSSE": [],
        "GRÖßE": [6],
        "": [],
        "zzz": [],
    }
    return {"names": names, "texts": texts, "bad": ["/(/", "/[z-a]/", "/*/i"]}


def documents():
    tiles = list(cases())
    by_name = {one["name"]: one for one in tiles}
    packed = [
        packed_types(),
        packed_tiles(by_name["events across tiles"]),
        packed_tiles(by_name["events without length"]),
        packed_tiles(by_name["counters"]),
        packed_tiles(by_name[FAR]),
    ]
    packed += [packed_compact(plain) for plain in packed[1:]]
    return {
        "tiles.json": {"kinds": KINDS, "cells": CELLS, "cases": tiles},
        "packed.json": {"replies": packed},
        "stats.json": {"cases": list(stats_cases())},
        "lateness.json": {"cases": list(lateness_cases())},
        "ribbon.json": {"cases": list(ribbon_cases())},
        "search.json": search_cases(),
    }


def text_of(document):
    """JSON with one innermost list or object a line: small diffs without endless lines."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.replace('},{"', '},\n{"') + "\n"


if __name__ == "__main__":
    for file_name, document in documents().items():
        (HERE / file_name).write_text(text_of(document), encoding="utf-8")
