"""What the scheduler wants done: frozen values, performed by ``control/scheduler/`` and answered as events.

Nothing here is urgent except :class:`Bind`: whoever performs effects lets conditions and events wait for bindings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from headgate.kube.resource import Resource
from headgate.scheduling.pod import Pod


class Bind(msgspec.Struct, frozen=True, gc=False):
    """Answered with ``Scheduler.bound``."""

    pod: Pod
    node_name: str


class SetStatus(msgspec.Struct, frozen=True):
    """``condition`` in place of the pod's ``PodScheduled``; ``nominated_node`` of ``None`` leaves the promise alone."""

    pod: Pod
    condition: Mapping[str, Any] | None = None
    nominated_node: str | None = None


class Say(msgspec.Struct, frozen=True):
    """An Event about a pod. ``once``: written at most once in the pod's life, whoever restarts."""

    pod: Pod
    type: str
    reason: str
    action: str
    message: str
    once: bool = False


class Write(msgspec.Struct, frozen=True):
    """A patch of some object that has to be there before a binding."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    body: Mapping[str, Any]
    how: Literal["merge", "strategic"] = "merge"
    subresource: str = ""


Effect = Bind | SetStatus | Say | Write
