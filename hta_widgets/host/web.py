"""Serve views of the given files to browsers, on the loopback interface only."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import hmac
import os
import re
import secrets
import shutil
import socket
import sys
import threading
import traceback
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.export.pages.format import read_asset
from hta_widgets.files import expand_home, temporary_folder
from hta_widgets.formats.ascend import RANK_FOLDER_END
from hta_widgets.formats.byteps import MACHINE
from hta_widgets.host.opening import Downloads
from hta_widgets.host.session import MAX_BYTES, Session, WireError, pack, unpack
from hta_widgets.host.verdicts import MAX_BYTES as MAX_VERDICT_BYTES, read_verdict
from hta_widgets.readers.detection import sniff
from hta_widgets.readers.discovery import files_below, natural_key
from hta_widgets.readers.formats import format_named
from hta_widgets.readers.remote import is_remote
from hta_widgets.readers.streams import open_stream
from hta_widgets.store.files import MANIFEST

_HEAD_BYTES = 1 << 16
_EVENTS = re.compile(rb'"(traceEvents|schemaVersion|deviceProperties|ph)"')
#: Modification time and size of a file. If they change, the file is read again.
_State = tuple[int, int]


@dataclass(frozen=True)
class _FolderFile:
    path: Path
    state: _State
    format: str


@dataclass
class FolderEntry:
    """A job or a file that pages can open."""

    #: Path relative to the folder, which identifies the entry in pages.
    path: str
    #: Argument for `hta_widgets.load`.
    source: Any
    files: int
    bytes: int
    changed_ns: int
    formats: list[str]
    parts: list[FolderEntry] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, int, int]:
        """The key in `Folder.verdicts`, which changes with the files."""
        return self.path, self.changed_ns, self.bytes

    def to_json(self) -> dict[str, Any]:
        """Return the fields that pages show."""
        return {
            "path": self.path,
            "files": self.files,
            "bytes": self.bytes,
            "changed_ms": self.changed_ns // 1_000_000,
            "formats": self.formats,
            "parts": [part.to_json() for part in self.parts],
        }


class Folder:
    """Lists the traces in a folder. Only new and changed files are opened."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.entries: list[FolderEntry] = []
        #: Verdicts, keyed by `FolderEntry.key`; None if the job cannot be read.
        self.verdicts: dict[tuple[str, int, int], dict[str, Any] | None] = {}
        #: State and format of each file that has been opened; the format is None if it is not a
        #: trace.
        self._formats: dict[str, tuple[_State, str | None]] = {}
        #: State of each file at the last check. Files that change between checks are incomplete.
        self._states: dict[str, _State] | None = None

    def source(self, path: str) -> Any:
        """Return the argument of `load` for an entry's path, or None if the path is unknown."""
        jobs_and_files = (item for entry in self.entries for item in (entry, *entry.parts))
        return next((item.source for item in jobs_and_files if item.path == path), None)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the entries, each with its verdict or with the reason why it has none."""
        return [
            {
                **entry.to_json(),
                "verdict": self.verdicts.get(entry.key),
                "note": self._verdict_note(entry),
            }
            for entry in self.entries
        ]

    def _verdict_note(self, entry: FolderEntry) -> str:
        if entry.bytes > MAX_VERDICT_BYTES:
            return f"larger than {MAX_VERDICT_BYTES >> 20} MiB: read when it is opened"
        if entry.key not in self.verdicts:
            return "not read yet"
        return "" if self.verdicts[entry.key] else "could not be read in advance"

    def next_unread(self) -> FolderEntry | None:
        """Return the newest job without a verdict, ignoring jobs that are too large."""
        small_entries = (entry for entry in self.entries if entry.bytes <= MAX_VERDICT_BYTES)
        return next((entry for entry in small_entries if entry.key not in self.verdicts), None)

    def refresh(self) -> bool:
        """Read the folder again; return whether its entries changed."""
        states = self._file_states()
        previous, self._states = self._states, states
        files = []
        for path, state in states.items():
            # A new file may be incomplete. It is read once its state no longer changes.
            if previous is None or previous.get(path) == state or path in self._formats:
                format_ = self._format(path, state)
                if format_ is not None:
                    files.append(_FolderFile(Path(path), state, format_))
        self._formats = {path: self._formats[path] for path in states if path in self._formats}
        previous_entries, self.entries = self.entries, _folder_entries(self.path, files)
        return self.entries != previous_entries

    def _file_states(self) -> dict[str, _State]:
        states = {}
        try:
            paths = sorted(files_below(str(self.path)), key=natural_key)
        except TraceError:
            return {}  # the folder was deleted or is unreadable
        for path in paths:
            with contextlib.suppress(OSError):
                stat = Path(path).stat()
                states[path] = (stat.st_mtime_ns, stat.st_size)
        return states

    def _format(self, path: str, state: _State) -> str | None:
        if path not in self._formats or self._formats[path][0] != state:
            self._formats[path] = state, _trace_format(path)
        return self._formats[path][1]


def _trace_format(path: str) -> str | None:
    try:
        sniffed = sniff(path)
        is_trace = not sniffed.aside
        if is_trace and sniffed.format == "kineto":
            # `sniff` accepts any JSON file.
            with open_stream(path) as stream:
                is_trace = _EVENTS.search(stream.read(_HEAD_BYTES)) is not None
    except TraceError:
        return None
    return sniffed.format if is_trace else None


def _folder_entries(root: Path, files: list[_FolderFile]) -> list[FolderEntry]:
    """Group files into jobs; return jobs and single files, newest first."""
    groups: dict[Path, list[_FolderFile]] = defaultdict(list)
    for file in files:
        groups[_job_of(file, root)].append(file)
    entries = []
    for folder, members in groups.items():
        parts = [_folder_entry(root, file.path, [file]) for file in members]
        # File names of a job differ only in numbers. Other files next to folders are separate jobs.
        loose = [file.path.name for file in members if file.path.parent == root]
        is_mixed = len(groups) > 1 and len({re.sub(r"\d+", "#", name) for name in loose}) > 1
        if len(members) == 1 or is_mixed:
            entries += parts
            continue
        # Loading a folder includes its subfolders.
        has_folders = any(folder in other.parents for other in groups)
        job = _folder_entry(root, folder, members)
        job.source = [str(file.path) for file in members] if has_folders else str(folder)
        job.parts = sorted(parts, key=lambda part: natural_key(part.path))
        entries.append(job)
    return sorted(entries, key=lambda entry: (-entry.changed_ns, natural_key(entry.path)))


def _job_of(file: _FolderFile, root: Path) -> Path:
    """Return the folder of the job to which a file belongs."""
    folder = file.path.parent
    is_byteps = file.format.startswith("byteps")
    parts = folder.relative_to(root).parts
    for index, part in enumerate(parts):
        # BytePS writes a folder for each machine, Ascend one for each rank.
        is_machine, is_rank = MACHINE.fullmatch(part), part.endswith(RANK_FOLDER_END)
        if is_machine if is_byteps else is_rank:
            return root.joinpath(*parts[:index])
    if not is_byteps:
        return folder
    # Each GPU of a worker has a numbered folder.
    while folder.name.isdecimal() and folder != root:
        folder = folder.parent
    return folder


def _folder_entry(root: Path, path: Path, files: list[_FolderFile]) -> FolderEntry:
    shown = path.parent if path.name == MANIFEST else path
    return FolderEntry(
        path=str(shown.relative_to(root)) if shown != root else ".",
        source=str(shown),
        files=len(files),
        bytes=sum(map(_size, files)),
        changed_ns=max(file.state[0] for file in files),
        formats=sorted({format_named(file.format).label for file in files}),
    )


def _size(file: _FolderFile) -> int:
    """Return the size of a file or, for a manifest, of its store."""
    if file.path.name != MANIFEST:
        return file.state[1]
    size_bytes = 0
    with contextlib.suppress(OSError):  # a file may have been removed
        for part in file.path.parent.iterdir():
            size_bytes += part.stat().st_size if part.is_file() else 0
    return size_bytes


class AllowedPaths:
    """The files that pages may open: the paths on the command line, or all traces in a folder."""

    def __init__(self, paths: list[str], compare: str | None) -> None:
        self.paths, self.compare = paths, compare
        self.all_paths = [*paths, *([compare] if compare is not None else [])]
        for path in self.all_paths:
            is_pattern = is_remote(path) or glob.has_magic(path)
            if not is_pattern and not expand_home(path).exists():
                raise TraceError("does not exist", path=path, remedy="Check the path.")
        #: Names of the paths in pages, without the secrets in URLs.
        self._names = _unique_names(self.all_paths)
        is_folder = len(paths) == 1 and compare is None and Path(paths[0]).is_dir()
        self.folder = Folder(paths[0]) if is_folder else None
        if self.folder is not None:
            self.folder.refresh()

    def source(self, path: str) -> Any:
        """Return the argument of `load` for a path from a page, or None if it is not allowed."""
        for source, name in self._names.items():
            if name == path:
                return source
        return None if self.folder is None else self.folder.source(path)

    @property
    def request(self) -> dict[str, Any] | None:
        """The first view of a page, or None for the start page."""
        if self.compare is not None:
            return {"view": "diff", "paths": [self._names[path] for path in self.all_paths]}
        if self.folder is None:
            return {"view": "dashboard", "paths": [self._names[path] for path in self.paths]}
        if len(self.folder.entries) == 1:
            return {"view": "dashboard", "paths": [self.folder.entries[0].path]}
        return None

    @property
    def title(self) -> str:
        """The names of the paths from the command line."""
        names = [self._names[path] for path in self.all_paths]
        return ", ".join(Path(name).resolve().name or name for name in names)


def _unique_names(paths: list[str]) -> dict[str, str]:
    """Return a unique name for each path, without the secrets in URLs."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for path in dict.fromkeys(paths):
        name = redact_urls(path)
        counts[name] += 1
        names[path] = name if counts[name] == 1 else f"{name} ({counts[name]})"
    return names


#: Allowed Host headers, to prevent DNS rebinding. Any port is allowed, since `ssh -L` may change
#: it.
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
_HEADERS = {
    # Views set style attributes, hence 'unsafe-inline'. All other content comes from this host.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
        "font-src data:; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Server": "hta-widgets",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8"}
_HEAD = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    '<link rel="icon" href="data:,">'
)
#: Page that redirects to ``/``. The redirect removes the token from the address and the history. A
#: ``SameSite=Strict`` cookie is sent with it, but not with requests from other sites or from files.
_ENTRANCE = _HEAD + '<meta http-equiv="refresh" content="0; url=/"><p>Opening…'
_PAGE = (
    _HEAD + '<meta name="viewport" content="width=device-width">'
    '<link rel="stylesheet" href="/static/view.css">'
    "<body><noscript>This page draws traces with JavaScript, which is switched off.</noscript>"
    '<main id="view"></main><script type="module" src="/static/view.js"></script>'
)
_REFRESH_EVERY_S = 2.0
#: Maximum size of a request body. Requests have none, and WebSocket messages have their own limit.
_MAX_BODY_BYTES = 1024
#: Timeout for receiving the headers of a request, and for receiving its body.
_TIMEOUT_S = 30.0
_BLOCK_BYTES = 1 << 20
#: Close codes of WebSockets.
_GOING_AWAY, _INVALID_DATA = 1001, 1007
_LAST_PORT = 65_535


class Site:
    """A running web server, with the session and all connected pages."""

    def __init__(
        self,
        session: Session,
        downloads: Downloads,
        listening: socket.socket,
        *,
        title: str,
        folder: Folder | None = None,
        idle_minutes: float = 0,
    ) -> None:
        self.session, self.downloads, self.title, self.folder = session, downloads, title, folder
        self.port: int = listening.getsockname()[1]
        self.token = secrets.token_urlsafe(32)
        # The cookie name includes the port, since all ports of a host share cookies.
        self.cookie = f"hta-widgets-{self.port}"
        self.pages: dict[str, SocketHandler] = {}
        self._idle_s = idle_minutes * 60
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        run = self._loop.run_until_complete
        self._thread = threading.Thread(target=run, args=[self._serve(listening)], daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL with the token that grants a browser access."""
        return f"http://127.0.0.1:{self.port}/?token={self.token}"

    def end(self) -> None:
        """Notify pages that the host is shutting down; stop serving."""
        with contextlib.suppress(RuntimeError):  # the loop has stopped
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(5)

    def is_token(self, text: str) -> bool:
        """Return whether a token is valid, using a constant-time comparison."""
        return hmac.compare_digest(text.encode(), self.token.encode())

    def join(self, page: SocketHandler) -> None:
        """Connect a page to the session."""
        self.pages[page.name] = page

        def write(frame: bytes) -> None:
            with contextlib.suppress(WebSocketClosedError):
                sent = page.write_message(frame, binary=True)
                sent.add_done_callback(lambda done: done.exception())

        def send(frame: bytes) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has stopped
                self._loop.call_soon_threadsafe(write, frame)

        self.session.join(page.name, send)
        if self.folder is not None:
            write(self._folder_frame(self.folder))
        self._watch_idle()

    def leave(self, page: SocketHandler) -> None:
        """Disconnect a page."""
        if self.pages.pop(page.name, None) is not None:
            self.session.leave(page.name)
            self._watch_idle()

    def _watch_idle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._idle_s and not self.pages:
            self._timer = self._loop.call_later(self._idle_s, self.session.stop)

    def _folder_frame(self, folder: Folder) -> bytes:
        return pack({"type": "folder", "title": self.title, "entries": folder.to_json()})

    async def _watch_folder(self, folder: Folder) -> None:
        while True:
            await asyncio.sleep(_REFRESH_EVERY_S)
            if not self.pages:
                continue
            try:
                if await asyncio.to_thread(folder.refresh):
                    self._show_folder(folder)
            except Exception:  # noqa: BLE001 - the next refresh may succeed
                traceback.print_exc(file=sys.stderr)

    async def _read_verdicts(self, folder: Folder) -> None:
        while True:
            await asyncio.sleep(_REFRESH_EVERY_S)
            while self.pages and (entry := folder.next_unread()) is not None:
                paths = [entry.source] if isinstance(entry.source, str) else entry.source
                folder.verdicts[entry.key] = await read_verdict(paths)
                self._show_folder(folder)

    def _show_folder(self, folder: Folder) -> None:
        frame = self._folder_frame(folder)
        for page in self.pages.values():
            page.write_message(frame, binary=True)

    async def _serve(self, listening: socket.socket) -> None:
        server = self._make_server()
        server.add_socket(listening)
        self._watch_idle()
        tasks = []
        if self.folder is not None:
            loops = (self._watch_folder(self.folder), self._read_verdicts(self.folder))
            tasks = [asyncio.ensure_future(loop) for loop in loops]
        await self._ended.wait()
        for task in tasks:
            task.cancel()
        server.stop()
        for page in list(self.pages.values()):
            page.close(_GOING_AWAY, "The host was ended.")
        await asyncio.sleep(0.1)  # time to send the last messages

    def _make_server(self) -> HTTPServer:
        arguments = {"site": self}
        application = Application(
            [
                (r"/", PageHandler, arguments),
                (r"/static/view\.(js|css)", StaticHandler, arguments),
                (r"/text/([0-9a-f]{32})", TextHandler, arguments),
                (r"/file/([\w-]{1,64})", DownloadHandler, arguments),
                (r"/ws", SocketHandler, arguments),
            ],
            default_handler_class=NotFoundHandler,
            default_handler_args=arguments,
            websocket_ping_interval=20,
            websocket_max_message_size=MAX_BYTES,
            log_function=lambda _handler: None,
        )
        # `prepare` checks the client only after the body has been received.
        return HTTPServer(
            application,
            max_body_size=_MAX_BODY_BYTES,
            body_timeout=_TIMEOUT_S,
            idle_connection_timeout=_TIMEOUT_S,
        )


class _AuthorizedHandler(RequestHandler):
    """Refuses requests without the token, or with a Host header that is not a loopback name."""

    def initialize(self, site: Site) -> None:
        self.site = site

    def set_default_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        if not _HOST.fullmatch(self.request.host):
            raise HTTPError(403, reason="The host name is not a loopback name")
        if not self.site.is_token(self.get_cookie(self.site.cookie) or ""):
            raise HTTPError(403, reason="Open the address that hta-widgets printed")

    def write_error(self, status_code: int, **_details: object) -> None:
        """Send the reason for an error, without a traceback."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}: {self._reason}.\n")


class NotFoundHandler(_AuthorizedHandler):
    """Handles all other addresses."""

    def prepare(self) -> None:
        """Check the client before answering 404."""
        super().prepare()
        raise HTTPError(404)


class PageHandler(_AuthorizedHandler):
    """The page, and the redirect that replaces the token with a cookie."""

    def prepare(self) -> None:
        """Check the client, unless the URL contains the token."""
        is_entrance = self.site.is_token(self.get_query_argument("token", ""))
        if not (is_entrance and _HOST.fullmatch(self.request.host)):
            super().prepare()

    def get(self) -> None:
        """Send the page."""
        page = _PAGE
        if "token" in self.request.query_arguments:
            page = _ENTRANCE
            self.set_cookie(
                self.site.cookie, self.site.token, httponly=True, samesite="Strict", path="/"
            )
        self.finish(page.format(title=escape(self.site.title)))


class StaticHandler(_AuthorizedHandler):
    """The page's own script and style sheet."""

    def get(self, suffix: str) -> None:
        """Send a file from the package."""
        self.set_header("Content-Type", _TYPES[suffix])
        self.finish(read_asset(f"view.{suffix}"))


class TextHandler(_AuthorizedHandler):
    """A widget's module or style sheet, addressed by hash so that it can be cached indefinitely."""

    def get(self, key: str) -> None:
        """Send the text."""
        text = self.site.session.hub.texts.get(key)
        if text is None:
            raise HTTPError(404)
        self.set_header("Content-Type", _TYPES["js"])
        self.set_header("Cache-Control", "private, max-age=31536000, immutable")
        self.finish(text)


class DownloadHandler(_AuthorizedHandler):
    """A file written by a page."""

    async def get(self, key: str) -> None:
        """Send the file, then delete it."""
        path = self.site.downloads.take(key)
        if path is None:
            raise HTTPError(404)
        name = quote(path.name)
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{name}")
        self.set_header("Content-Length", str(path.stat().st_size))
        try:
            with path.open("rb") as file:
                while block := file.read(_BLOCK_BYTES):
                    self.write(block)
                    await self.flush()
        finally:
            shutil.rmtree(path.parent, ignore_errors=True)


class SocketHandler(_AuthorizedHandler, WebSocketHandler):
    """The connection to a page."""

    def prepare(self) -> None:
        """Refuse pages of other origins, since browsers send the cookie for these pages, too."""
        super().prepare()
        # Tornado does not call `check_origin` if the Origin header is missing.
        if not self.check_origin(self.request.headers.get("Origin", "")):
            raise HTTPError(403, reason="The page does not come from this host")

    def check_origin(self, origin: str) -> bool:
        """Return whether the page has the same host and port."""
        return origin.lower() == f"http://{self.request.host}".lower()

    def open(self, *_args: str, **_kwargs: str) -> None:
        """Connect."""
        self.name = secrets.token_hex(8)
        self.site.join(self)

    def on_message(self, message: str | bytes) -> None:
        """Pass a frame to the session; close the connection if it is invalid."""
        try:
            frame = message if isinstance(message, bytes) else b""
            self.site.session.enqueue(self.name, *unpack(frame))
        except WireError as error:
            self.close(_INVALID_DATA, str(error)[:100])

    def on_close(self) -> None:
        """Disconnect."""
        self.site.leave(self)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on the loopback interface. Port 0 selects a free port."""
    remedy = "Give another --port, or leave it out."
    if not 0 <= port <= _LAST_PORT:
        raise TraceError(f"port {port} cannot be used (0 to {_LAST_PORT})", remedy=remedy)
    try:
        bound = socket.create_server(("127.0.0.1", port))
    except OSError as cause:
        reason = cause.strerror or cause
        raise TraceError(f"port {port} cannot be used ({reason})", remedy=remedy) from None
    bound.setblocking(False)
    return bound


def redirect_file(url: str) -> Path:
    """Write a page that redirects to a URL; return its path.

    The file keeps the token out of command lines.
    """
    path = temporary_folder() / "open.html"
    path.touch(mode=0o600)
    head = _HEAD.format(title="hta-widgets")
    path.write_text(f'{head}<meta http-equiv="refresh" content="0; url={url}">', "utf-8")
    return path
