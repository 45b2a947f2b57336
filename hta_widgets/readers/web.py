"""Files of web servers, using only the standard library.

The state of a file is read from the server's headers, and the files of a store from its manifest. A
request always ends with a file or a `TraceError`, even if a server is slow or sends bad data.
"""

from __future__ import annotations

import base64
import io
import json
import math
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.store.files import MANIFEST

#: Function that downloads a file, given its remote name and the local path.
Fetch = Callable[[str, Path], None]

_FILES = (".json", ".gz", ".zst", ".trc")
_TIMEOUT_S = 60
#: A request whose reply arrives more slowly than this fails after `_TIMEOUT_S`.
_MIN_BYTES_PER_S = 1000
_BLOCK_BYTES = 1 << 20
_MAX_HEADER_BYTES = 1 << 20
#: Maximum size of a manifest. A manifest of 100,000 ranks has 60 MB.
_MAX_MANIFEST_BYTES = 1 << 28


def http_files(url: str) -> tuple[dict[str, str], Fetch, str]:
    """Return files' states keyed by name, a function that fetches files, and the base URL."""
    parts = split_url(url)

    def url_of(name: str) -> str:
        folder = parts.path.rstrip("/")
        return parts._replace(path=f"{folder}/{name}").geturl() if name else url

    def fetch(name: str, target: Path) -> None:
        with open_url(url_of(name)) as reply, target.open("wb") as file:
            while block := reply.read1(_BLOCK_BYTES):
                file.write(block)
            if reply.length:  # otherwise, all announced bytes have arrived
                raise OSError(f"the connection ended {reply.length:,} bytes early")

    base = redact_urls(url).rstrip("/") + "/"
    if not parts.path.endswith(_FILES):
        files = _stored_files(url_of(MANIFEST))
        if files is not None:
            return files, fetch, base
    with open_url(url, method="HEAD") as reply:
        return {"": _state(reply)}, fetch, base


def _stored_files(url: str) -> dict[str, str] | None:
    """Return the state of each file listed in a store's manifest; None if it has no manifest."""
    try:
        reply = open_url(url)
    except TraceError:
        return None
    with reply:
        try:
            body = json.loads(_read_manifest(reply, url))["body"]
            entries = [*body["ranks"], *(entry for _, entry in body.get("captures", ()))]
            # The manifest lists each file of a store, and a store's files never change.
            return {MANIFEST: _state(reply), **{str(entry["file"]): "" for entry in entries}}
        except TraceError:
            raise
        except TimeoutError as cause:
            raise TraceError(str(cause), path=url, remedy="Check the network.") from None
        except (HTTPException, OSError, ValueError, KeyError, TypeError, RecursionError):
            return None


def _read_manifest(reply: Any, url: str) -> bytes:
    manifest: bytes = reply.read(_MAX_MANIFEST_BYTES + 1)
    if len(manifest) > _MAX_MANIFEST_BYTES:
        raise TraceError(
            f"is larger than {_MAX_MANIFEST_BYTES / 1e6:,.0f} MB",
            path=url,
            remedy="Check that the URL points to a trace.",
        )
    return manifest


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL; raise a `TraceError` if it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port, parts.hostname  # raises if they are invalid
    except ValueError as cause:
        raise TraceError(f"is not a URL ({cause})", path=url, remedy="Check the URL.") from None
    return parts


def _state(reply: Any) -> str:
    """Return a string that changes with the file, from the headers of a reply."""
    headers = ("ETag", "Last-Modified", "Content-Length")
    return repr([reply.headers.get(name) for name in headers])


class _WebRedirects(HTTPRedirectHandler):
    """Follows redirects to web servers only; `urllib` also follows redirects to FTP."""

    def redirect_request(self, *args: Any) -> Any:
        request, reply, code, _, headers, target = args
        reply.close()  # otherwise, `urllib` reads all of it
        if urlsplit(target).scheme.lower() not in {"http", "https"}:
            reason = "a redirect to another protocol"
            raise HTTPError(request.full_url, code, reason, headers, reply)
        return super().redirect_request(*args)


class _SteadyConnections(HTTPHandler, HTTPSHandler):
    """Opens connections that reject replies, including headers, that arrive too slowly."""

    def do_open(self, http_class: Any, req: Any, **options: Any) -> Any:
        def connect(*args: Any, **options: Any) -> Any:
            connection = http_class(*args, **options)
            connection.response_class = _SteadyReply
            return connection

        return super().do_open(connect, req, **options)


class _SteadyReply(HTTPResponse):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._stream = _SteadyStream(self.fp.detach())
        self.fp = io.BufferedReader(self._stream)

    def begin(self) -> None:
        super().begin()  # never returns if the server keeps sending 100 (Continue)
        self._stream.max_bytes = math.inf


class _SteadyStream(io.RawIOBase):
    """The bytes that a server sends; a socket's timeout only limits the wait for the next byte.

    Time is measured from the first byte, because a server may take long to begin.
    """

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self.max_bytes: float = _MAX_HEADER_BYTES
        self._first_s = math.inf
        self._size_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size: int = self._raw.readinto(buffer) or 0
        now_s = time.monotonic()
        self._first_s = min(self._first_s, now_s)
        self._size_bytes += size
        if self._size_bytes > self.max_bytes:
            raise OSError(f"the server has sent {self._size_bytes:,} bytes of headers")
        elapsed_s = now_s - self._first_s
        if size and elapsed_s > _TIMEOUT_S and self._size_bytes < _MIN_BYTES_PER_S * elapsed_s:
            # This is not a `TraceError`, because `http.client` replaces any `ValueError`.
            raise TimeoutError(
                f"the server has sent {self._size_bytes:,} bytes in {elapsed_s:.0f} s"
            )
        return size

    def close(self) -> None:
        self._raw.close()
        super().close()


def open_url(url: str, method: str = "GET") -> Any:
    """Request a URL, following redirects; return the reply, a binary file with headers."""
    parts = split_url(url)
    user, _, address = parts.netloc.rpartition("@")
    request = Request(parts._replace(netloc=address, fragment="").geturl(), method=method)  # noqa: S310 - http or https
    if user:
        encoded = base64.b64encode(unquote(user).encode()).decode()
        # The header is not sent to the target of a redirect.
        request.add_unredirected_header("Authorization", f"Basic {encoded}")
    try:
        opener = build_opener(_WebRedirects, _SteadyConnections)
        return opener.open(request, timeout=_TIMEOUT_S)
    except HTTPError as cause:
        cause.close()
        raise TraceError(
            f"the server answered {cause.code} ({cause.reason})", path=url, remedy="Check the URL."
        ) from None
    except (HTTPException, OSError, ValueError, OverflowError) as cause:
        raise TraceError(
            f"cannot be reached ({getattr(cause, 'reason', cause)})",
            path=url,
            remedy="Check the URL and the network.",
        ) from None
