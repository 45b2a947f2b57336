"""The background thread, kept busy so that answers to requests are pending."""

import contextlib
import threading

from hta_widgets.live import background


@contextlib.contextmanager
def held_up():
    """Keep the thread busy within the context."""
    begun, over = threading.Event(), threading.Event()
    work = background.BackgroundTask(lambda: [begun.set(), over.wait(60)])
    work.wait_until(0)
    assert begun.wait(60)
    try:
        yield
    finally:
        over.set()
        settled()


def settled():
    """Wait until all that was begun is done or cancelled."""
    done = threading.Event()
    background._submit(done.set)
    assert done.wait(60)
