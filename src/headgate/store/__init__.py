"""Revisioned objects, watch history, the durable log.

The room's front door: what other rooms use is named here, except the hands (``store/shell.py``), which only ``cli`` and
the server's shell take.
"""

from __future__ import annotations

from headgate.store.item import Change, Compacted, Item, Page, Revision
from headgate.store.memory import Store

__all__ = ["Change", "Compacted", "Item", "Page", "Revision", "Store"]
