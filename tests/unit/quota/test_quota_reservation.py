"""The reservation annotation of pods is user data: which ones count, and how long a workload waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate.controllers.framework.reconcile import Enqueue
from headgate.kube.api_resources import PODS
from headgate.kube.timestamps import format_time
from headgate.quota.controller.quota_controller import QuotaController
from headgate.quota.engine import QuotaSettings
from kueue_builders import Wire
from quota_engine import Api

WAITS = "WaitingForTerminatingPods"
STAMP = "headgate.dev/quota-reservation"
TEN_YEARS_S = 315_360_000
WITHIN: dict[str, Any] = {"preemption": {"withinClusterQueue": "LowerPriority"}}


def a_pod(api: Api, **changes: Any) -> Wire:
    """A pod that no Workload stands behind, with a reservation that could be true but for the changes."""
    stamp: Wire = {
        "workload": "x",
        "clusterQueue": "cq",
        "localQueue": "lq",
        "flavors": {"cpu": "default"},
        "reservedAt": format_time(api.now_s - 5),
        **changes,
    }
    return {
        "metadata": {
            "namespace": "ns",
            "name": "p",
            "uid": "uid-p",
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
            "annotations": {STAMP: msgspec.json.encode(stamp).decode()},
        },
        "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running"},
    }


def an_api(settings: QuotaSettings | None = None, cpu: int = 1) -> Api:
    api = Api(settings)
    api.queue("cq", {"default": {"cpu": cpu}}, **WITHIN)
    return api


def status(api: Api) -> str:
    return api.condition("w", WAITS)[0]


def submitted(api: Api) -> str:
    api.submit("w")
    api.cycle()
    assert api.admitted() == ["w"]
    return status(api)


def test_a_workload_waits_for_a_pod_with_a_valid_reservation() -> None:
    api = an_api()
    api.terminate(a_pod(api))
    assert submitted(api) == "True"


def test_a_pod_without_a_node_is_not_waited_for() -> None:
    api = an_api()
    pod = a_pod(api)
    del pod["spec"]["nodeName"]
    api.terminate(pod)
    assert submitted(api) == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"reservedAt": "9999-99-99T00:00:00Z"},
        {"reservedAt": ""},
        {"reservedAt": "2199-01-01T00:00:00Z"},
        {"flavors": {"cpu": "unknown"}},
        {"flavors": {"cpu": "other"}},
    ],
    ids=["unreadable time", "no time", "time in the future", "unknown flavor", "flavor of no queue"],
)
def test_an_invalid_reservation_is_not_counted(changes: Wire) -> None:
    api = an_api()
    api.flavor("other")
    before = _in_use(api)
    api.terminate(a_pod(api, **changes))
    assert _in_use(api) == before
    assert len(api.engine.ledger.occupancy.ignored) == 1
    assert submitted(api) == ""


def _in_use(api: Api) -> dict[tuple[str, str], int]:
    node = api.engine.ledger.occupancy.tree.queue("cq")
    assert node is not None
    return dict(node.usage)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"labels": {}}, ""),
        ({"labels": {"kueue.x-k8s.io/queue-name": "another"}}, ""),
        ({"labels": {}, "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u"}]}, ""),
        ({"labels": {}, "ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]}, "True"),
    ],
    ids=["no label", "label of another queue", "owner that does not control", "controlled"],
)
def test_a_pod_counts_if_it_is_of_the_queue_or_of_a_controller(metadata: Wire, expected: str) -> None:
    api = an_api()
    pod = a_pod(api)
    pod["metadata"] |= metadata
    api.terminate(pod)
    assert submitted(api) == expected


def test_flavors_count_again_when_the_queue_offers_them() -> None:
    api = an_api()
    api.flavor("other")
    api.terminate(a_pod(api, flavors={"cpu": "other"}))
    assert not _in_use(api).get(("other", "cpu"))
    api.queue("cq", {"default": {"cpu": 1}, "other": {"cpu": 1}}, **WITHIN)
    assert _in_use(api)["other", "cpu"] == 1000
    api.queue("cq", {"default": {"cpu": 1}}, **WITHIN)
    assert not _in_use(api).get(("other", "cpu"))


def test_a_long_grace_period_is_waited_for_ten_minutes_and_no_longer() -> None:
    api = an_api()
    api.terminate(a_pod(api), TEN_YEARS_S)
    assert submitted(api) == "True"
    api.pass_s(602)
    assert status(api) == "True"
    api.pass_s(2)
    assert api.condition("w", WAITS)[:2] == ("False", "TerminatingPodsMaxWaitExceeded")


def test_the_maximum_wait_is_a_setting() -> None:
    api = an_api(QuotaSettings(max_wait_s=30.0))
    api.terminate(a_pod(api), TEN_YEARS_S)
    submitted(api)
    api.restart()
    api.pass_s(32)
    assert status(api) == "True"
    api.pass_s(2)
    assert status(api) == "False"


def test_a_shortened_deletion_does_not_restart_the_maximum_wait() -> None:
    api = an_api()
    pod = a_pod(api)
    api.terminate(pod, TEN_YEARS_S)
    submitted(api)
    api.pass_s(400)
    api.terminate(pod, TEN_YEARS_S // 2)
    api.cycle()
    assert status(api) == "True", "its deletion began before the reservation"
    api.pass_s(204)
    assert status(api) == "False"


def test_each_problem_of_reservations_is_logged_once() -> None:
    said: list[str] = []
    quota = QuotaController(QuotaSettings(), warn=said.append)
    api = an_api()
    for number in range(3):
        pod = a_pod(api, reservedAt="9999-99-99T00:00:00Z")
        pod["metadata"] |= {"name": f"p-{number}", "uid": f"uid-{number}"}
        assert list[Enqueue](quota.applied(PODS, pod, api.now_s)) == []
    assert said == [f"the annotation {STAMP} of pod ns/p-0 is ignored: its time of reservation cannot be read"]


def test_a_pod_that_begins_to_terminate_after_the_reservation_is_not_waited_for() -> None:
    api = an_api()
    api.terminate(a_pod(api), 600)
    assert submitted(api) == "True"
    api.pass_s(100)
    later = a_pod(api)
    later["metadata"] |= {"name": "later", "uid": "uid-later"}
    api.terminate(later)
    api.cycle()
    assert status(api) == "True"
    api.engine.pod_removed("uid-p")
    api.cycle()
    assert status(api) == "False"


# Why a workload waits no longer.


def _leave(api: Api, pod: Wire) -> None:
    api.engine.pod_removed("uid-p")
    del api.objects["pod", "uid-p"]


def _end(api: Api, pod: Wire) -> None:
    api.show({**pod, "status": {"phase": "Failed"}})


def _spoil(api: Api, pod: Wire) -> None:
    shown = api.objects["pod", "uid-p"]
    api.show({**shown, "metadata": {**shown["metadata"], "annotations": {}}})


def _claim_less(api: Api, pod: Wire) -> None:
    shown = api.objects["pod", "uid-p"]
    stamp = {STAMP: shown["metadata"]["annotations"][STAMP].replace('"lq"', '"none"')}
    owner = [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]
    api.show({**shown, "metadata": {**shown["metadata"], "annotations": stamp, "ownerReferences": owner}})


def _restart_without(api: Api, pod: Wire) -> None:
    api.settings = QuotaSettings(starts_after_terminating=False)
    api.restart()


def _leave_and_restart(api: Api, pod: Wire) -> None:
    del api.objects["pod", "uid-p"]
    api.restart()


def _leave_and_raise_quota(api: Api, pod: Wire) -> None:
    _leave(api, pod)
    api.queue("cq", {"default": {"cpu": 2}}, **WITHIN)


def _be_overdue_at_restart(api: Api, pod: Wire) -> None:
    api.now_s += 64
    api.restart()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_leave, "TerminatingPodsLeft"),
        (_end, "TerminatingPodsLeft"),
        (_leave_and_restart, "TerminatingPodsLeft"),
        (_leave_and_raise_quota, "TerminatingPodsLeft"),
        (lambda api, pod: api.queue("cq", {"default": {"cpu": 2}}, **WITHIN), "FitsBesideTerminatingPods"),
        (lambda api, pod: api.pass_s(64), "TerminatingPodsOverdue"),
        (_be_overdue_at_restart, "TerminatingPodsOverdue"),
        (_spoil, "TerminatingPodsNotCounted"),
        (_claim_less, "TerminatingPodsNotCounted"),
        (lambda api, pod: api.remove("local_queue", "ns/lq"), "TerminatingPodsNotCounted"),
        (_restart_without, "StartAfterTerminatingPodsDisabled"),
    ],
    ids=[
        *("left", "ended", "left during a restart", "left, and quota raised", "quota raised"),
        *("overdue", "overdue at a restart"),
        *("annotation removed", "annotation changed", "LocalQueue deleted", "feature gate off"),
    ],
)
def test_the_condition_has_the_reason_for_the_end_of_the_wait(
    change: Callable[[Api, Wire], object], reason: str
) -> None:
    api = an_api()
    pod = a_pod(api)
    api.terminate(pod)
    assert submitted(api) == "True"
    change(api, pod)
    api.cycle()
    shown = api.condition("w", WAITS)
    assert shown[:2] == ("False", reason)
    (told,) = [each for each in api.events if each.reason == reason]
    assert told.message == shown[2]


def test_the_message_names_a_pod_and_until_when_that_one_is_waited_for() -> None:
    """Two pods that began to terminate in the same second: neither is called the first to be overdue."""
    api = an_api(cpu=2)
    for name, grace_s in (("a", 600), ("b", 60)):
        pod = a_pod(api)
        pod["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        api.terminate(pod, grace_s)
    assert submitted(api) == "True"
    said = api.condition("w", WAITS)[2]
    assert f"such as ns/a (waited for until {format_time(api.now_s + 603)} at the latest)" in said
    assert "first" not in said
