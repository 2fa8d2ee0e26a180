"""The plugins of one profile, by extension point."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headgate.scheduling.framework.interface import (
    AwaitingPreBindPlugin,
    CyclePlugins,
    PreEnqueuePlugin,
    QueueSortPlugin,
    ResourceEventHandler,
)


class Framework(msgspec.Struct, frozen=True):
    """The plugins of a profile, in the order in which they are called."""

    name: str
    pre_enqueue: tuple[PreEnqueuePlugin, ...]
    queue_sort: QueueSortPlugin
    cycle_plugins: CyclePlugins
    binding_plugins: Mapping[str, tuple[Any, ...]]
    """The plugins of the extension points from ``reserve`` to ``postBind``, by point."""
    awaiting_plugins: tuple[AwaitingPreBindPlugin, ...]
    """The ``preBind`` plugins that a binding cycle waits for."""
    unknown_plugins: tuple[str, ...]
    annotations: frozenset[str]
    """The annotations of pods that some plugin reads (``PreEnqueuePlugin``)."""
    queue_plugins: tuple[Any, ...] = ()
    """The plugins of other packages that serve an extension point of queues."""
    event_handlers: tuple[ResourceEventHandler, ...] = ()
    """Plugins that receive events of other resources (:class:`ResourceEventHandler`)."""
