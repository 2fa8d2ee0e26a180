"""The store of the embedded API server (its etcd): objects at revisions, watch history, and the durable log.

Other packages import the names below; only ``cli`` and ``apiserver/io/`` import ``store/io/``, which does the I/O.
"""

from __future__ import annotations

from headgate.store.item import Compacted, Item, ItemPage, Revision, StoreChange
from headgate.store.memory import Store

__all__ = ["Compacted", "Item", "ItemPage", "Revision", "Store", "StoreChange"]
