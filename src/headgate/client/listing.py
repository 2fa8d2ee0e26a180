"""A whole list, page by page: a generator that yields requests and is sent answers.

For whoever asks once; who wants to stay up to date has an informer. All pages show the same revision; a list that took
too long for that begins anew, in one piece. What an item is, is the caller's to read, so that nobody keeps more of a
large cluster than is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from headgate.client.outcome import message_of
from headgate.client.transport import Request, Response, encode_query

T = TypeVar("T")

PAGE: Final = "500"
ACCEPT: Final = {"accept": "application/json"}
_GONE: Final = 410


class _Metadata(msgspec.Struct, rename={"token": "continue", "revision": "resourceVersion"}, frozen=True):
    token: str = ""
    revision: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A list as the wire has it, with items that a decoder knows."""

    metadata: _Metadata = _Metadata()
    items: list[T] = []


class Listed(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    revision: str


class Refused(msgspec.Struct, frozen=True):
    """The server said no, or something that makes no sense (then ``status`` is 0)."""

    text: str
    status: int = 0


def list_all(
    path: str, read: Callable[[bytes], Page[T]], query: Mapping[str, str] | None = None
) -> Generator[Request, Response, Listed[T] | Refused]:
    """``read`` may raise msgspec's DecodeError."""
    chosen = dict(query or {})
    found: list[T] = []
    asked = {**chosen, "limit": PAGE}
    while True:
        answer = yield Request("GET", path, encode_query(asked), ACCEPT)
        if answer.status == _GONE and "continue" in asked:
            found, asked = [], chosen
            continue
        if not answer.ok:
            return Refused(what_it_said(answer), answer.status)
        try:
            page = read(answer.body)
        except msgspec.DecodeError as error:
            return Refused(f"{path} sent what is not a list: {error}")
        found += page.items
        if not page.metadata.token:
            return Listed(found, page.metadata.revision)
        asked = {**chosen, "limit": PAGE, "continue": page.metadata.token}
        # A token stands for its revision; both together are refused.
        for each in ("resourceVersion", "resourceVersionMatch"):
            asked.pop(each, None)


def what_it_said(answer: Response) -> str:
    return f"the server answered {answer.status}: {message_of(answer)}"
