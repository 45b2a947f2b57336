"""Compare lane indices with one another, and stored lanes with their events."""

from dataclasses import fields, is_dataclass

import numpy as np

from hta_widgets.tiles.layout import folded_lanes
from hta_widgets.tiles.stored_lanes import device_rows, folded_lane, stored_lanes


def assert_same_lane(one, other, place="lane"):
    """Compare two indexed lanes array by array, including the dtypes."""
    assert type(one) is type(other), place
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, place
        assert np.array_equal(one, other), place
    elif isinstance(one, tuple):
        assert len(one) == len(other), place
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same_lane(a, b, f"{place}[{number}]")
    elif is_dataclass(one):
        for field in fields(one):
            a, b = getattr(one, field.name), getattr(other, field.name)
            assert_same_lane(a, b, f"{place}.{field.name}")
    else:
        assert one == other, place


def fresh_lanes(table):
    device = device_rows(table)
    return {ref: folded_lane(table, ref, device) for ref in folded_lanes(table)}


def assert_kept_lanes_are_right(table):
    """Compare the stored lanes of a table with its events; return the number of stored lanes."""
    remaining = stored_lanes(table)
    if remaining:
        fresh = fresh_lanes(table)
        assert list(remaining) == list(fresh)
        for ref, lane in remaining.items():
            assert_same_lane(lane, fresh[ref], str(ref))
    return len(remaining)
