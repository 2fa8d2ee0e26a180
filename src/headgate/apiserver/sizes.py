"""How large a stored object may be, and what a client is told whose object is larger.

The bounds are etcd's, and the answers are those of kube-apiserver in front of it: 1.5 MiB for one write, and 2 MiB that
its client sends at all. What is measured is the object as it is stored, after defaults, admission and the owners of
fields. etcd holds custom objects as JSON, as we do, and built-in ones as protobuf, in which texts stand without
escapes: of ours the escapes are not counted, and no more than :data:`_MOST_ESCAPED_BYTES` are stored with them.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.kind import Kind
from headgate.kube import status
from headgate.store import Item

MOST_BYTES: Final = 1536 * 1024
_MOST_SENT_BYTES: Final = 2048 * 1024
_FRAME_BYTES: Final = 128
"""Roughly what a write to etcd has beside the object: keys, a comparison, a lease."""
_MOST_ESCAPED_BYTES: Final = 2 * MOST_BYTES
MOST_GROWN_BYTES: Final = 256 * 1024 * 1024
"""How much longer all objects of a list may be than they are stored."""


def refusal(kind: Kind, item: Item) -> status.ApiError | None:
    """Why ``item`` is too large to be stored, if it is."""
    if len(item.data) + _FRAME_BYTES <= MOST_BYTES:
        return None
    size = len(item.data) + _FRAME_BYTES
    if kind.form is None and size <= _MOST_ESCAPED_BYTES:
        size -= item.data.count(b"\\")
    if size <= MOST_BYTES:
        return None
    return too_large(size)


def too_large(size: int = MOST_BYTES + 1) -> status.ApiError:
    """``size``: of the whole write, as far as it is known."""
    if size <= _MOST_SENT_BYTES:
        return status.unknown_error("etcdserver: request is too large")
    return status.unknown_error(
        "rpc error: code = ResourceExhausted desc = trying to send message larger than max"
        f" ({size} vs. {_MOST_SENT_BYTES})"
    )


def list_too_large() -> status.ApiError:
    text = f"defaults and conversion make the list longer by more than {MOST_GROWN_BYTES} bytes; ask with a limit"
    return status.ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {text}")
