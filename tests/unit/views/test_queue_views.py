"""The queue engine of the views follows the scheduler."""

from __future__ import annotations

from capacity_builders import a_queue
from headgate.capacity.api.lease import Lapse, write_lapse
from headgate.capacity.api.task import ANNOTATIONS
from headgate.capacity.engine import WaitReason
from headgate.capacity.names import LAPSED, QUEUE_NAME, QUEUES
from headgate.scheduling.cache.pod import PodInfo, read_pod
from headgate.scheduling.cache.pod_shape import ShapeTable
from headgate.views.queue_views import QueueViews


def a_pod(reason: str, message: str) -> PodInfo:
    annotations = {LAPSED: write_lapse(Lapse(1, 90.0), "u"), QUEUE_NAME: "q"}
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    pod = read_pod(
        {
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations},
            "spec": {
                "schedulerName": "headgate",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            },
            "status": {"conditions": [condition]},
        },
        ShapeTable(),
        ANNOTATIONS,
    )
    assert isinstance(pod, PodInfo)
    return pod


def test_a_lapse_is_not_shown_any_more_when_the_scheduler_gives_another_reason() -> None:
    views = QueueViews(frozenset({"headgate"}), frozenset())
    views.applied(QUEUES, a_queue("q", 1))
    views.pod_applied(a_pod("Unschedulable", "0/1 nodes are available"))
    views.changed_pods(100.0, {})
    wait = views.engine.peek_wait_reason("u")
    assert wait is not None
    assert wait.why is WaitReason.LAPSED
    views.pod_applied(a_pod("WaitingForQueue", "queue q has no capacity for 2 cpu"))
    views.changed_pods(101.0, {})
    wait = views.engine.peek_wait_reason("u")
    assert wait is not None
    assert wait.why is WaitReason.FULL
