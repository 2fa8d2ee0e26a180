"""The bytes of lists and watches, read: items with their identity, events, and what went wrong. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.client import picking
from headgate.client.known import Identity
from headgate.client.outcome import message_of, retry_after_s
from headgate.client.transport import Response
from headgate.kube import wire_json

Object = dict[str, Any]

UNREADABLE: Final = 0


class Trouble(Exception):
    """The server answered, and the answer was no, or made no sense (``UNREADABLE``)."""

    def __init__(self, status: int, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.status = status
        self.wait_s = wait_s


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Page(msgspec.Struct):
    metadata: Object
    items: list[msgspec.Raw] | None = None


class _Kind(msgspec.Struct):
    name: str


class _Discovery(msgspec.Struct):
    resources: list[_Kind]


_NOT_FOUND: Final = 404
_decode_discovery: Final = wire_json.Decoder(_Discovery).decode
_decode_line: Final = wire_json.Decoder(_Line).decode
_decode_page: Final = wire_json.Decoder(_Page).decode
_decode_whole: Final = picking.decoder()
_UNFIT: Final = (msgspec.DecodeError, KeyError, TypeError, AttributeError)


def parse_event(path: str, line: bytes, decode: picking.Decode) -> tuple[str, Object, Identity]:
    """Raises ``Trouble`` for a line that ends the watch: an ERROR event, or one that is not an event at all."""
    try:
        event = _decode_line(line)
        if event.type == "ERROR":
            status = wire_json.decode(event.object)
            code = status.get("code")
            raise Trouble(
                code if isinstance(code, int) else UNREADABLE, f"the watch on {path} ended: {status.get('message', '')}"
            )
        return event.type, *_item(event.object, decode)
    except _UNFIT as error:
        raise Trouble(UNREADABLE, f"the watch on {path} sent what is not an event: {line[:200]!r}") from error


def parse_page(path: str, body: bytes, decode: picking.Decode) -> tuple[list[tuple[Object, Identity]], str, str]:
    """Items, the token for the next page, and the revision of the list."""
    try:
        page = _decode_page(body)
        items = [_item(item, decode) for item in page.items or ()]
        return items, page.metadata.get("continue") or "", str(page.metadata["resourceVersion"])
    except _UNFIT as error:
        raise Trouble(UNREADABLE, f"{path} sent what is not a list: {body[:200]!r}") from error


def names_kind(response: Response, plural: str) -> bool:
    """Whether the discovery document of a group and version lists a kind. One that cannot be read may list it."""
    if not response.ok:
        return response.status != _NOT_FOUND
    try:
        return any(each.name == plural for each in _decode_discovery(response.body).resources)
    except msgspec.DecodeError:
        return True


def refusal(path: str, response: Response) -> Trouble:
    text = f"{path} answered {response.status}: {message_of(response).strip()}"
    return Trouble(response.status, text, retry_after_s(response))


def _item(raw: msgspec.Raw, decode: picking.Decode) -> tuple[Object, Identity]:
    try:
        item = decode(raw)
    except msgspec.ValidationError:
        # Not of the shape that the consumer asked for: one odd object must not hide the others. It gets all of it.
        item = _decode_whole(raw)
    metadata = item["metadata"]
    key = (metadata.get("namespace") or "", metadata.get("name") or "")
    return item, Identity(key, metadata.get("uid") or "", str(metadata["resourceVersion"]))
