"""The widgets, which connect the tiles and analyses of a job to a page."""

from hta_widgets.widgets.dashboard import Dashboard
from hta_widgets.widgets.timeline import Timeline
from hta_widgets.widgets.trace_diff import TraceDiff
from hta_widgets.widgets.view import State

__all__ = ["Dashboard", "State", "Timeline", "TraceDiff"]
