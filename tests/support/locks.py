"""Watches that work in turns never pauses within a cached property.

Up to Python 3.11 that holds a lock which all objects share, and who waits for the next turn would
wait for it forever.
"""

import functools
import threading

from hta_widgets.trace import turns

__all__ = ["watch_pauses"]

_here = threading.local()


def watch_pauses(patch):
    """Raise where work in turns may pause within a cached property, while `patch` lasts."""
    plain_get, plain_rest = functools.cached_property.__get__, turns._Work.rest

    def get(self, instance, owner=None):
        within = getattr(_here, "within", ())
        _here.within = (*within, self.attrname)
        try:
            return plain_get(self, instance, owner)
        finally:
            _here.within = within

    def rest(self):
        within = getattr(_here, "within", ())
        assert not within, f"work in turns may pause within {' > '.join(within)}"
        plain_rest(self)

    patch.setattr(functools.cached_property, "__get__", get)
    patch.setattr(turns._Work, "rest", rest)
