"""DefaultBinder: binds the pod with the ``pods/binding`` subresource."""

from __future__ import annotations

from typing import Final

from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.framework.effects import Bind


class DefaultBinder:
    name: Final = "DefaultBinder"

    def bind(self, pod: PodInfo, node_name: str, /) -> Bind:
        return Bind(pod, node_name)
