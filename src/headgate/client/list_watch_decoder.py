"""Decodes the bytes of lists and watches: items with their identity, events, and errors. Pure."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headgate.client import field_decoder
from headgate.client.known_objects import ObjectVersion
from headgate.client.write_status import message_of, retry_after_s
from headgate.http.transport import HTTPResponse
from headgate.kube.serializer import wire_json

Object = dict[str, Any]

UNREADABLE: Final = 0


class ListWatchError(Exception):
    """The server refused, or its response is invalid (``UNREADABLE``)."""

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
_decode_discovery: Final = wire_json.WireDecoder(_Discovery).decode
_decode_line: Final = wire_json.WireDecoder(_Line).decode
_decode_page: Final = wire_json.WireDecoder(_Page).decode
_decode_whole: Final = field_decoder.decoder()
_DECODE_ERRORS: Final = (msgspec.DecodeError, KeyError, TypeError, AttributeError)


def parse_event(path: str, line: bytes, decode: field_decoder.Decode) -> tuple[str, Object, ObjectVersion]:
    """Raises ``ListWatchError`` for a line that ends the watch: an ERROR event, or an invalid line."""
    try:
        event = _decode_line(line)
        if event.type == "ERROR":
            status = wire_json.decode(event.object)
            code = status.get("code")
            raise ListWatchError(
                code if isinstance(code, int) else UNREADABLE, f"the watch on {path} ended: {status.get('message', '')}"
            )
        return event.type, *_item(event.object, decode)
    except _DECODE_ERRORS as error:
        raise ListWatchError(UNREADABLE, f"the watch on {path} sent an invalid event: {line[:200]!r}") from error


def parse_page(
    path: str, body: bytes, decode: field_decoder.Decode
) -> tuple[list[tuple[Object, ObjectVersion]], str, str]:
    """Items, the token for the next page, and the revision of the list."""
    try:
        page = _decode_page(body)
        items = [_item(item, decode) for item in page.items or ()]
        return items, page.metadata.get("continue") or "", str(page.metadata["resourceVersion"])
    except _DECODE_ERRORS as error:
        raise ListWatchError(UNREADABLE, f"{path} sent an invalid list: {body[:200]!r}") from error


def names_kind(response: HTTPResponse, plural: str) -> bool:
    """Whether the discovery document of a group and version lists a kind. True for an invalid document."""
    if not response.ok:
        return response.status != _NOT_FOUND
    try:
        return any(each.name == plural for each in _decode_discovery(response.body).resources)
    except msgspec.DecodeError:
        return True


def refusal(path: str, response: HTTPResponse) -> ListWatchError:
    text = f"{path} returned {response.status}: {message_of(response).strip()}"
    return ListWatchError(response.status, text, retry_after_s(response))


def _item(raw: msgspec.Raw, decode: field_decoder.Decode) -> tuple[Object, ObjectVersion]:
    try:
        item = decode(raw)
    except msgspec.ValidationError:
        # A requested field has an unexpected type. One such object must not hide the others; it is decoded whole.
        item = _decode_whole(raw)
    metadata = item["metadata"]
    key = (metadata.get("namespace") or "", metadata.get("name") or "")
    return item, ObjectVersion(key, metadata.get("uid") or "", str(metadata["resourceVersion"]))
