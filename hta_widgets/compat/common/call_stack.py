"""HTA's earlier call graph; here it is the same as `trace_call_graph`."""

from hta_widgets.compat.common.trace_call_graph import CallGraph
from hta_widgets.compat.common.trace_call_stack import (
    CallStackGraph,
    CallStackIdentity,
    CallStackNode,
)

__all__ = ["CallGraph", "CallStackGraph", "CallStackIdentity", "CallStackNode"]
