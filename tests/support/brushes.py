"""Random selections, as users of a dashboard make them."""

from hta_widgets.panels.added import WHOLE_JOB_FRAMES
from hta_widgets.panels.frames import format_panels, panels

#: Panels that the page computes. All others are stored in the page as tables.
IDS = [
    name
    for name in panels()
    if name not in {"heatmap", *WHOLE_JOB_FRAMES, *(panel.id for panel in format_panels())}
]
EVERYTHING = dict.fromkeys(("start_ns", "end_ns", "ranks", "tracks", "query", "ids"))
#: Number of heatmap bins.
BINS = 37


def brushes(rng, traces, *, count):
    """Yield selections as a dashboard makes them: everything, one restriction, or several."""
    low, high = int(traces.start_ns), max(int(traces.end_ns), 1)
    names = sorted({name for trace in traces.values() for name in trace.table.names.values})
    tables = [trace.table for trace in traces.values()]
    on_device = {table.names[code] for table in tables for code in set(table.name[table.kind < 3])}
    work = sorted(filter(str.isprintable, on_device)) or names[:1]
    tracks = sorted({track.key for trace in traces.values() for track in trace.table.tracks})

    def window():
        start = rng.randrange(low - high // 20, high)
        return {"start_ns": start, "end_ns": start + rng.choice((0, 1, high // 50, high // 3))}

    def edge():
        # Window edges that coincide with edges of events.
        trace = rng.choice(list(traces.values()))
        if not len(trace):
            return {}
        start = rng.choice((trace.table.start_ns + trace.shift_ns).tolist())
        return {"start_ns": start, "end_ns": rng.choice([start, start + 1, high])}

    def ranks():
        return {"ranks": rng.sample(traces.ranks, rng.randrange(1, len(traces) + 1))}

    def clauses():
        some = rng.sample(work, min(len(work), rng.randrange(1, 4)))
        kinds = rng.sample(("compute", "communication", "memory", "cpu"), rng.randrange(1, 3))
        rest = rng.choice(("dur_ns > 5000", "category != 'kernel'", "stream == 7 or dur_ns < 900"))
        parts = {f"name in {some!r}", f"kind in {kinds!r}"}
        chosen = rng.sample(sorted(parts), rng.randrange(1, 3))
        return {"query": " and ".join([*rng.sample([f"({rest})"], rng.randrange(2)), *chosen])}

    def on_tracks():
        some = rng.sample(tracks, min(len(tracks), 2))
        return {"tracks": [key if rng.random() < 0.5 else [traces.ranks[0], key] for key in some]}

    def ids():
        rank = rng.choice(traces.ranks)
        size = max(len(traces[rank]), 1)
        return {"ids": [[rank, rng.randrange(size)] for _ in range(20)]}

    makers = (window, window, edge, ranks, clauses, clauses, on_tracks, ids)
    yield EVERYTHING
    for maker in dict.fromkeys(makers):
        yield {**EVERYTHING, **maker()}
    for _ in range(count):
        chosen = rng.sample(makers, rng.randrange(1, 4))
        yield {**EVERYTHING, **{key: value for make in chosen for key, value in make().items()}}
    yield {**EVERYTHING, "end_ns": rng.randrange(low, high), "query": "dur_ns >= 0"}
