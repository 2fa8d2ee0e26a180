"""DynamicResources, as far as it goes here: pods that ask for devices by resource claims are not placed, and told so.

Claims are not allocated by this scheduler. All other pods are none of its business; but where no node will do it says
so, as kube-scheduler's does, since conditions are read by people and programs that know its words.
"""

from __future__ import annotations

from typing import Final

from headgate.scheduling.contract import SKIP, Ends, Ground, Reason, Refusal, Skip, Unplaced
from headgate.scheduling.events import own_update
from headgate.scheduling.guards import AsksOtherwise
from headgate.scheduling.nodes import NodeMatrix
from headgate.scheduling.pod import Pod
from headgate.scheduling.shape import Shape
from headgate.waiting.waker import Waker

NOT_SUPPORTED: Final = Refusal(
    Reason("spec.resourceClaims: this scheduler does not allocate resource claims", unresolvable=True)
)


class DynamicResources:
    name: Final = "DynamicResources"

    def pre_filter(self, pod: Pod, matrix: NodeMatrix, /) -> Skip | Refusal:
        return NOT_SUPPORTED if pod.shape.has_claims else SKIP

    def wakers(self, shape: Shape, /) -> tuple[Waker, ...]:
        return own_update(AsksOtherwise())

    def post_filter(self, pod: Pod, unplaced: Unplaced, ground: Ground, /) -> str | Ends:
        if pod.shape.has_claims:
            return ""
        # kube-scheduler's looks for the notes it made when it first looked at the pod, and fails where it did not.
        return Ends("not found") if unplaced.is_early else "no new claims to deallocate"
