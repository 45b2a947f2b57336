"""Work that a profiler states for each call, in place of what follows from its arguments.

XLA counts the FLOPs and the bytes of its operations when it compiles them, so its calls have the
args ``flops`` and ``bytes accessed``. Equal operations with different figures are different
signatures. On a device that no call on the host launches, such as a TPU, the operations of the
device are the calls.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from hta_widgets.analysis.efficiency.calls import Work
from hta_widgets.analysis.efficiency.signatures import Signatures, signatures
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

_FLOPS, _BYTES, _CATEGORY = "flops", "bytes accessed", "hlo_category"
STATED: Final = "stated"


@memoize
def signatures_with_stated_work(trace: Trace) -> Signatures:
    """Return the signatures of a rank's counted calls, with the work that its file states."""
    signature_set = signatures(trace)
    if not getattr(trace.source, "states_work", False):
        return signature_set
    args = event_args(trace, signature_set.calls.rows, (_FLOPS, _BYTES, _CATEGORY))
    codes: dict[tuple[Any, ...], int] = {}
    keys = zip(signature_set.code.tolist(), *args.values(), strict=True)
    code = np.array([codes.setdefault(key, len(codes)) for key in keys], np.int64)
    return replace(
        signature_set,
        code=code,
        row=code,
        names=[signature_set.names[key[0]] for key in codes],
        texts=[signature_set.texts[key[0]] for key in codes],
        works=[_work(signature_set.works[key[0]], *key[1:]) for key in codes],
        input_types=[signature_set.input_types[key[0]] for key in codes],
    )


def _work(derived: Work, flops: Any, size_bytes: Any, category: Any) -> Work:
    if not isinstance(flops, (int, float)) and not isinstance(size_bytes, (int, float)):
        return derived
    flops = float(flops) if isinstance(flops, (int, float)) else 0.0
    size_bytes = float(size_bytes) if isinstance(size_bytes, (int, float)) else np.nan
    return Work(
        category if isinstance(category, str) else derived.category,
        flops=flops,
        model_flops=flops,
        min_bytes=size_bytes,
        kind="matrix" if flops else "none",
        certainty=STATED,
    )
