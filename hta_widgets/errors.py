"""Exceptions of this package (`TraceError` and its subclasses), and optional imports."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:[^\s/?#'\"<>]*@)?(?P<path>[^\s?#'\"<>]*)"
    r"(?P<more>[?#][^\s'\"<>]*)?"
)


def redact_urls(text: str) -> str:
    """Remove user info, queries and fragments from the URLs in a string.

    These may contain passwords, tokens and signatures.

    Examples
    --------
    >>> redact_urls("https://me:secret@host/rank-0.json?X-Amz-Signature=4f2a")
    'https://host/rank-0.json'
    >>> redact_urls("s3://bucket/rank-?.json")
    's3://bucket/rank-?.json'
    """
    return _URL.sub(_without_secrets, text) if "://" in text else text


def _without_secrets(url: re.Match[str]) -> str:
    suffix = url["more"] or ""
    # In protocols other than HTTP, names and patterns may contain these characters.
    is_name = not url["scheme"].lower().startswith("http") and "=" not in suffix
    return url["scheme"] + url["path"] + (suffix if is_name else "")


class TraceError(ValueError):
    """An error that users can fix. It states the problem, the place, and a remedy.

    Parameters
    ----------
    message : str
        Description of the error in one sentence, without the file name.
    path : path-like, optional
        The file or directory with the error.
    place : str, optional
        Position in the file, such as ``"byte 1 048 576"`` or ``"line 12"``.
    remedy : str, optional
        Advice for the user in one sentence.

    Examples
    --------
    >>> raise TraceError("is empty", path="rank-3.json", remedy="Copy the file again.")
    Traceback (most recent call last):
    ...
    hta_widgets.errors.TraceError: rank-3.json: is empty. Copy the file again.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | Path | None = None,
        place: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.message = redact_urls(message)
        self.path = None if path is None else redact_urls(str(path))
        self.place = place
        self.remedy = remedy
        location = ": ".join(part for part in (self.path, place) if part)
        text = f"{location}: {self.message}" if location else self.message
        if remedy:
            text = f"{text.rstrip('.')}. {remedy}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        # By default, exceptions with keyword arguments cannot be unpickled.
        create = partial(TraceError, path=self.path, place=self.place, remedy=self.remedy)
        return create, (self.message,)


class UnknownNameError(TraceError, KeyError):
    """Raised for an unknown key. It is both a `TraceError` and a `KeyError`."""

    # The text of a KeyError is quoted by default.
    __str__ = Exception.__str__


def import_extra(module: str, extra: str) -> Any:
    """Import a module of an optional dependency; raise a `TraceError` if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise TraceError(
            f"{module.partition('.')[0]} is not installed",
            remedy=f'Install it: pip install "hta_widgets[{extra}]".',
        ) from None
