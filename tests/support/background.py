"""Keep the background thread busy, so that replies to requests stay pending."""

import contextlib
import threading

from hta_widgets.live import background


@contextlib.contextmanager
def held_up():
    """Keep the background thread busy inside the `with` block."""
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
    """Wait until all started work is done or canceled."""
    done = threading.Event()
    background._submit(done.set)
    assert done.wait(60)
