"""HTA's classes over our analyses: a notebook moves by changing its imports.

``from hta.X import Y`` becomes ``from hta_widgets.compat.X import Y``. There are
``trace_analysis``, ``trace_diff``, ``memory_analysis``; below ``common`` ``trace``,
``trace_file``, ``trace_filter``, ``trace_stack_filter``, ``trace_symbol_table``, ``trace_df``,
``trace_call_graph``, ``trace_call_stack``, ``timeline`` in part, ``types``, ``constants``;
below ``configs`` ``parser_config``, ``config``, ``default_values``; below ``utils`` ``utils`` and
``checker``; below ``analyzers`` one module a question.

Not offered are HTA's tools for its own tests (``utils.test_utils``), its checker of trace files
(``utils.validate_trace``: what is wrong with a file is in `TraceSet.problems`), its environment
options (``configs.env_options``), its parser's internals (``common.trace_parser``), and execution
traces (``common.execution_trace``), which need a package that no registry has.
"""

from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.memory_analysis import MemoryAnalysis
from hta_widgets.compat.trace_analysis import TimeSeriesTypes, TraceAnalysis
from hta_widgets.compat.trace_diff import DeviceType, LabeledTrace, TraceDiff

__all__ = [
    "DeviceType",
    "LabeledTrace",
    "MemoryAnalysis",
    "TimeSeriesTypes",
    "Trace",
    "TraceAnalysis",
    "TraceDiff",
]
