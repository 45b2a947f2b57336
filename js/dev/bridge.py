"""Serves a tile engine on loopback for the dev page: python js/dev/bridge.py TRACE… [--port 0]."""

from __future__ import annotations

import argparse
import json
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

import hta_widgets as hw
from hta_widgets.live.job import TileEngine


def framed(reply: dict[str, Any], buffer: bytes | None) -> bytes:
    """One body for both: length of the JSON, the JSON, padding to 8 bytes, the buffer."""
    text = json.dumps(reply).encode()
    head = struct.pack("<I", len(text)) + text
    return head + b"\0" * (-len(head) % 8) + (buffer or b"")


def handler(engine: TileEngine) -> type[BaseHTTPRequestHandler]:
    """Make the handler class that answers from `engine`, one request at a time."""
    lock = Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, json.dumps(engine.scene()).encode())

        def do_OPTIONS(self) -> None:
            self._send(200, b"")

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                with lock:
                    reply, buffer = engine.answer(json.loads(body))
            except Exception as error:  # noqa: BLE001 - the page shows it
                message = {"message": f"{type(error).__name__}: {error}"}
                self._send(500, framed(message, None))
            else:
                self._send(200, framed(reply, buffer))

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Access-Control-Allow-Origin", "*")
            self.send_header("Access-Control-Allow-Headers", "*")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def main() -> None:
    """Load the traces and serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+")
    parser.add_argument("--port", type=int, default=0)
    arguments = parser.parse_args()
    engine = TileEngine(hw.load(arguments.traces))
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), handler(engine))
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
