"""Changes that can be made to a demo job, and what a comparison should say of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from hta_widgets.errors import TraceError

__all__ = ["CHANGES", "ChangeName", "checked_changes", "told_changes"]

ChangeName = Literal["slow_operator", "fused_kernel", "moved_collective", "extra_copy"]

#: Names of all changes.
CHANGES: tuple[ChangeName, ...] = get_args(ChangeName)

#: What each does, in the words of `hta_widgets.diff.changes`.
_TRUTH: dict[ChangeName, dict[str, Any]] = {
    # Its host time and its kernel take twice as long.
    "slow_operator": {"change": "slower", "name": "aten::gelu", "factor": 2.0},
    # The two kernels of each layer norm's backward pass become one.
    "fused_kernel": {
        "change": "replaced",
        "name": "aten::native_layer_norm_backward",
        "kernels": [2, 1],
    },
    # The first bucket of gradients is reduced at the end of the backward pass.
    "moved_collective": {"change": "moved", "name": "c10d::allreduce_"},
    # The logits are copied before the loss.
    "extra_copy": {
        "change": "added",
        "name": "aten::contiguous",
        "kernel": "Memcpy DtoD (Device -> Device)",
    },
}


def checked_changes(changes: Iterable[ChangeName], *, ranks: int) -> frozenset[ChangeName]:
    """Return the changes asked for, after checking that the job can have them."""
    asked = {str(changes)} if isinstance(changes, str) else set(map(str, changes))
    unknown = sorted(asked - set(CHANGES))
    if unknown:
        raise TraceError(
            f"there is no change {unknown[0]!r}", remedy=f"They are {', '.join(CHANGES)}."
        )
    if "moved_collective" in asked and ranks < 2:
        raise TraceError("a job of one rank has no collective to move", remedy="Give it 2 ranks.")
    return frozenset(name for name in CHANGES if name in asked)


def told_changes(changes: frozenset[ChangeName]) -> list[dict[str, Any]]:
    """Return the truth about changes."""
    return [{"injected": name, **_TRUTH[name]} for name in CHANGES if name in changes]
