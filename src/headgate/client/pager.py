"""Reads a whole list, page by page: a generator that yields requests and is sent responses.

It is for commands that read once; ``client/io/informer.py`` also watches. All pages show the same revision; a list
whose revision is compacted before its last page starts again, unpaged. The caller decodes the items and may keep only
the fields that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from headgate.client.write_status import message_of
from headgate.http.transport import HTTPRequest, HTTPResponse, encode_query

T = TypeVar("T")

PAGE: Final = "500"
ACCEPT: Final = {"accept": "application/json"}
_GONE: Final = 410


class _Metadata(msgspec.Struct, rename={"token": "continue", "revision": "resourceVersion"}, frozen=True):
    token: str = ""
    revision: str = ""


class ListResponse(msgspec.Struct, Generic[T], frozen=True):
    """A list response with typed items."""

    metadata: _Metadata = _Metadata()
    items: list[T] = []


class ListResult(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    revision: str


class ListRefused(msgspec.Struct, frozen=True):
    """The server refused, or its response is invalid (then ``status`` is 0)."""

    text: str
    status: int = 0


def list_all(
    path: str, read: Callable[[bytes], ListResponse[T]], query: Mapping[str, str] | None = None
) -> Generator[HTTPRequest, HTTPResponse, ListResult[T] | ListRefused]:
    """``read`` may raise msgspec's DecodeError."""
    base = dict(query or {})
    found: list[T] = []
    params = {**base, "limit": PAGE}
    while True:
        response = yield HTTPRequest("GET", path, encode_query(params), ACCEPT)
        if response.status == _GONE and "continue" in params:
            found, params = [], base
            continue
        if not response.ok:
            return ListRefused(refusal_message(response), response.status)
        try:
            page = read(response.body)
        except msgspec.DecodeError as error:
            return ListRefused(f"{path} sent an invalid list: {error}")
        found += page.items
        if not page.metadata.token:
            return ListResult(found, page.metadata.revision)
        params = {**base, "limit": PAGE, "continue": page.metadata.token}
        # A token includes its revision; the server refuses both together.
        for each in ("resourceVersion", "resourceVersionMatch"):
            params.pop(each, None)


def refusal_message(response: HTTPResponse) -> str:
    return f"the server returned {response.status}: {message_of(response)}"
