"""Where early versions of HTA had ``Trace``."""

from hta_widgets.compat.common.trace import Trace

__all__ = ["Trace"]
