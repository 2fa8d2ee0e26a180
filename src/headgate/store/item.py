"""The values of the store: one object at one revision, one write, one page of a list.

The object itself is encoded JSON (``Item.data``): bytes need the least memory and are ready to send. The writer
computes the labels and fields for selectors once. ``store/memory.py`` keeps these values; ``store/log_rows.py`` encodes
them as rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NewType

import msgspec

Revision = NewType("Revision", int)
MAX_ITEM_BYTES: Final = 16 * 1024 * 1024
"""Far above the limit for clients (``apiserver/kinds/size_limits.py``), and far below SQLite's."""


# gc=False: these never form a cycle, and a hundred thousand tracked objects would cost a second per full collection.
class Item(msgspec.Struct, frozen=True, gc=False):
    """One object at one revision."""

    resource: str
    """``pods``, ``deployments.apps``: the plural, and the group if it has one."""
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str
    uid: str
    revision: Revision
    """The revision of the write that made this state."""
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    """The values that field selectors can match."""
    data: bytes
    """JSON as served, ``metadata.resourceVersion`` already inside."""


class StoreChange(msgspec.Struct, frozen=True, gc=False):
    """One write, staged or committed."""

    revision: Revision
    item: Item
    """The state after the write; for a delete the last state, encoded again with the revision of the delete."""
    previous: Item | None
    deleted: bool


class ItemPage(msgspec.Struct, frozen=True):
    """Some objects of one resource, as they were at one revision."""

    items: Sequence[Item]
    revision: Revision
    more: bool
    remaining: int
    """How many objects follow in the same list; zero exactly when ``more`` is false."""


class Compacted(msgspec.Struct, frozen=True):
    """The requested revision is older than the history."""

    oldest: Revision
    """The oldest revision that can still be read, or watched from."""


def key_of(namespace: str, name: str) -> str:
    """The key of an object within its resource.

    Lists are sorted by this text, not by the pair: a cluster's storage sorts whole keys, so that namespace ``a-b``
    comes before ``a`` (``-`` sorts before ``/``), and clients see that order.
    """
    return f"{namespace}/{name}"
