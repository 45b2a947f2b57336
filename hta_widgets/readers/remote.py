"""Local copies of remote files, from web servers and through all protocols of fsspec.

A copy is kept in the cache, in a folder named after the URL and the state of its files. URLs shown
to users, such as the file name of a trace, omit user info, query and fragment.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.files import temporary_folder
from hta_widgets.readers import cache
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.traceset import TraceSet

if TYPE_CHECKING:
    from hta_widgets.readers.web import Fetch

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
#: Package that fsspec requires for each protocol.
_DRIVERS = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs",
    "adl": "adlfs", "hf": "huggingface_hub", "sftp": "paramiko", "ssh": "paramiko",
    "smb": "smbprotocol", "hdfs": "pyarrow with libhdfs",
}  # fmt: skip


def is_remote(source: object) -> bool:
    """Return whether a source names a remote file."""
    if isinstance(source, str):
        return _URL.match(source) is not None
    if isinstance(source, Mapping):
        return any(is_remote(part) for part in source.values())
    return isinstance(source, (list, tuple)) and any(is_remote(part) for part in source)


@dataclass
class LocalCopies:
    """Local copies of remote files, with their original names."""

    keep: bool
    _names: dict[str, str] = field(default_factory=dict)

    def source(self, source: object) -> Any:
        """Return the source with local paths, after downloading files that are missing."""
        if isinstance(source, str) and is_remote(source):
            return self._local(source)
        if isinstance(source, Mapping):
            return {rank: self.source(part) for rank, part in source.items()}
        if isinstance(source, (list, tuple)):
            return [self.source(part) for part in source]
        return source

    def _local(self, url: str) -> str:
        # Imported only for URLs, because it imports ssl and email.
        from hta_widgets.readers.web import http_files, split_url

        protocol = url.partition("://")[0].lower()
        if protocol == "file":
            return unquote(split_url(url).path)
        list_files = http_files if protocol in {"http", "https"} else _fsspec_files
        names, fetch, base = list_files(url)  # a single file has an empty name
        folder = cache.folder() if self.keep else temporary_folder()
        identity = repr((url, sorted(names.items())))
        tree = folder / (hashlib.sha256(identity.encode()).hexdigest()[:40] + cache.REMOTE)
        if not tree.is_dir():
            _download_tree({name: base + name if name else url for name in names}, fetch, tree, url)
        os.utime(tree)
        for name in names:
            file_url = base + name if name else url
            self._names[str(tree / _path_of(file_url))] = redact_urls(file_url)
        return str(tree / _path_of(url if names.keys() == {""} else base))

    def with_original_names(self, traces: TraceSet) -> TraceSet:
        """Return the trace set with the original names of its files."""

        def original(path: str | None) -> str | None:
            return path and self._names.get(path, path)

        problems = (
            replace(problem, file=original(problem.file)) for problem in traces.problem_list
        )
        return TraceSet.restore(
            [
                trace.replace(path=original(trace.path), profile_path=original(trace.profile_path))
                for trace in traces.values()
            ],
            Problems(problems),
            clock=traces.clock,
            origin_ns=traces.origin_ns,
            origin_offset_ns=traces.origin_offset_ns,
        )

    def with_original_name(self, error: TraceError) -> TraceError:
        """Return the error with the original name of the file."""
        path = None if error.path is None else self._names.get(error.path, error.path)
        return TraceError(error.message, path=path, place=error.place, remedy=error.remedy)


def _path_of(name: str) -> str:
    """Return a relative path for a URL; folder and file names are kept, as they may state ranks."""
    path = redact_urls(name).partition("://")[2]
    parts = [part for part in PurePosixPath(unquote(path)).parts if part not in {"/", "..", "."}]
    return "/".join(parts) or "file"


def _download_tree(names: Mapping[str, str], fetch: Fetch, tree: Path, url: str) -> None:
    """Download files to a temporary folder; rename it to `tree` when all are complete."""
    part = target = None
    try:
        tree.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = Path(tempfile.mkdtemp(dir=tree.parent, suffix=cache.PART))
        for name, remote_path in names.items():
            target = part / _path_of(remote_path)
            target.parent.mkdir(parents=True, exist_ok=True)
            fetch(name, target)
        if not tree.is_dir():
            part.rename(tree)
    except TraceError:
        raise
    except Exception as cause:  # noqa: BLE001 - each driver has exceptions of its own
        if not tree.is_dir():  # otherwise, another process was faster
            place = None
            if target is not None and target.is_file():
                place = f"{target.name}, byte {target.stat().st_size:,}"
            raise TraceError(
                f"cannot be copied here ({cause})",
                path=url,
                place=place,
                remedy="Check the disk and the network.",
            ) from None
    finally:
        if part is not None:
            shutil.rmtree(part, ignore_errors=True)
    if tree.parent == cache.folder():
        cache.evict(tree)


def _fsspec_files(url: str) -> tuple[dict[str, str], Fetch, str]:
    """Return files' states keyed by name, a function that fetches files, and the base URL."""
    system, path = _file_system(url)
    try:
        wildcard = re.search(r"[*?\[]", path)
        if wildcard is not None:
            root, names_below = path[: wildcard.start()].rpartition("/")[0], system.glob(path)
        elif system.isdir(path):
            root, names_below = path, system.find(path)
        elif system.exists(path):
            return {"": str(system.ukey(path))}, lambda _, to: system.get_file(path, str(to)), ""
        else:
            raise TraceError("does not exist", path=url, remedy="Check the path.")  # noqa: TRY301
        files = [name for name in names_below if not system.isdir(name)]
    except TraceError:
        raise
    except Exception as cause:  # noqa: BLE001 - each driver has exceptions of its own
        raise TraceError(
            f"cannot be listed ({cause})", path=url, remedy="Check the path and your credentials."
        ) from None
    if not files:
        raise TraceError("holds no files", path=url, remedy="Check the path.")
    root = root.rstrip("/") + "/"
    names = {file.removeprefix(root): str(system.ukey(file)) for file in files}

    def fetch(name: str, target: Path) -> None:
        system.get_file(root + name, str(target))

    return names, fetch, url.partition("://")[0] + "://" + root.lstrip("/")


def _file_system(url: str) -> tuple[Any, str]:
    protocol = url.partition("://")[0].lower()
    try:
        from fsspec.core import url_to_fs  # an optional package
    except ImportError:
        packages = " ".join(filter(None, ("fsspec", _DRIVERS.get(protocol))))
        raise TraceError(
            f"reading {protocol}:// needs fsspec", path=url, remedy=f"pip install {packages}"
        ) from None
    try:
        system, path = url_to_fs(url)
    except ImportError as cause:
        driver = _DRIVERS.get(protocol)
        raise TraceError(
            f"reading {protocol}:// needs {driver or 'a package that is not installed'}",
            path=url,
            remedy=f"pip install {driver}" if driver else str(cause),
        ) from None
    except Exception as cause:  # noqa: BLE001 - each driver has exceptions of its own
        raise TraceError(
            f"cannot be opened ({cause})", path=url, remedy="Check the path and your credentials."
        ) from None
    return system, path
