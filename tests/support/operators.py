"""Hand-written operator calls: arguments and events."""

from support.small import event

BF16, FLOAT, INT, LONG = "c10::BFloat16", "float", "int", "long int"
E4M3, E8M0, BYTE = "c10::Float8_e4m3fn", "c10::Float8_e8m0fnu", "unsigned char"
HALF, FP4 = "c10::Half", "c10::Float4_e2m1fn_x2"
PEAKS = {"bf16": 1.0, "fp8": 2.0, "memory_gb_s": 100.0}


def args(**places):
    """Return arguments by position, as ``_0=(dims, type)`` or ``_4="16"``; None elsewhere."""
    places = {int(name[1:]): value for name, value in places.items()}
    rows = [places.get(at, "") for at in range(max(places) + 1)]
    dims = [list(row[0]) if isinstance(row, tuple) else [] for row in rows]
    types = [row[1] if isinstance(row, tuple) else "" for row in rows]
    values = ["" if isinstance(row, tuple) else row for row in rows]
    return dims, types, [], values


def op(name, start, end, dims, types=None, **more):
    """Return an operator on a host thread; inputs are BF16 unless `types` are given."""
    shapes = {"Input Dims": dims, "Input type": types or [BF16] * len(dims)}
    return event("cpu_op", name, start, end, pid=10, tid=1, **shapes, **more)
