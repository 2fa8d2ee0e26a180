"""DefaultBinder: a pod gets its node by a binding, which the API server takes or refuses as a whole."""

from __future__ import annotations

from typing import Final

from headgate.scheduling.effects import Bind
from headgate.scheduling.pod import Pod


class DefaultBinder:
    name: Final = "DefaultBinder"

    def bind(self, pod: Pod, node_name: str, /) -> Bind:
        return Bind(pod, node_name)
