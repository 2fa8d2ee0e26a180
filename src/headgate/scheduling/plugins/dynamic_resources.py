"""DynamicResources: rejects pods that use resource claims, because Headgate does not allocate devices.

Other pods pass. Where no node fits, the plugin adds its message as kube-scheduler's plugin does, since users and
programs that read conditions expect it.
"""

from __future__ import annotations

from typing import Final

from headgate.scheduling.cache.node_matrix import NodeMatrix
from headgate.scheduling.cache.pod import PodInfo
from headgate.scheduling.cache.pod_shape import PodShape
from headgate.scheduling.framework.cluster_events import own_update
from headgate.scheduling.framework.event_objects import PodRequestsChanged
from headgate.scheduling.framework.interface import (
    SKIP,
    FilterReason,
    Handle,
    PostFilterUnresolvable,
    PreFilterRejection,
    Skip,
    Unplaced,
)
from headgate.waiting.queueing_hints import ClusterEventWithHint

NOT_SUPPORTED: Final = PreFilterRejection(
    FilterReason("spec.resourceClaims: this scheduler does not allocate resource claims", unresolvable=True)
)


class DynamicResources:
    name: Final = "DynamicResources"

    def pre_filter(self, pod: PodInfo, matrix: NodeMatrix, /) -> Skip | PreFilterRejection:
        return NOT_SUPPORTED if pod.shape.has_claims else SKIP

    def wakers(self, shape: PodShape, /) -> tuple[ClusterEventWithHint, ...]:
        return own_update(PodRequestsChanged())

    def post_filter(self, pod: PodInfo, unplaced: Unplaced, handle: Handle, /) -> str | PostFilterUnresolvable:
        if pod.shape.has_claims:
            return ""
        # kube-scheduler's plugin reads its PreFilter state, and fails if its PreFilter did not run.
        return PostFilterUnresolvable("not found") if unplaced.is_early else "no new claims to deallocate"
