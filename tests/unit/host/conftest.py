"""A session in this thread, with lists in place of pages."""

import threading
import time

import comm
import pytest

from hta_widgets.host.session import Session, unpack


class Page:
    """A page that records what it is sent."""

    def __init__(self, session, name):
        self.session, self.name, self.heard = session, name, []
        session.join(name, lambda frame: self.heard.append(unpack(frame)))

    def put(self, **message):
        self.session.enqueue(self.name, message, [])

    def ask(self, model, op, **request):
        content = {"rpc": f"{self.name}-{op}", "op": op, **request}
        self.put(type="comm_msg", comm=model, data={"method": "custom", "content": content})

    def kinds(self):
        return [message["type"] for message, _ in self.heard]

    def last(self, kind):
        return next(message for message, _ in reversed(self.heard) if message["type"] == kind)

    def models(self):
        opened = [message for message, _ in self.heard if message["type"] == "comm_open"]
        return {message["comm"]: message["data"]["state"] for message in opened}

    def replies(self):
        return [
            message["data"]["content"]
            for message, _ in self.heard
            if message["type"] == "comm_msg" and message["data"]["method"] == "custom"
        ]

    def updates(self, method):
        return [
            message["data"]["state"]
            for message, _ in self.heard
            if message["type"] == "comm_msg" and message["data"]["method"] == method
        ]


class Hosted:
    """A session that handles queued messages in `run`."""

    def __init__(self, sources=lambda path: path, **options):
        self.session = Session(sources, {"again": "hta-widgets view x"}, **options)
        self.names = 0

    def page(self):
        self.names += 1
        return Page(self.session, f"page-{self.names}")

    def run(self):
        self.session.stop()
        self.session.run()


@pytest.fixture
def hosted(monkeypatch):
    monkeypatch.setattr(comm, "create_comm", comm.create_comm)  # `run` replaces it
    return Hosted


@pytest.fixture
def in_background():
    threads = []

    def start(condition, function):
        def wait():
            while not condition():
                time.sleep(0.005)
            function()

        threads.append(threading.Thread(target=wait))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
