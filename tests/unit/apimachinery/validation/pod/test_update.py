"""Validation of pod updates: the pod itself, its status, resize and ephemeralcontainers."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.pods.preparation import (
    grace_period_s,
    prepare_pod_ephemeral_containers,
    prepare_pod_resize,
    prepare_pod_status_update,
    prepare_pod_update,
)
from headgate.apimachinery.validation.pod import (
    validate_pod_ephemeral_containers,
    validate_pod_resize,
    validate_pod_status_update,
)
from headgate.kube.feature_gates import DEFAULTS
from unit.apimachinery.validation.pod.pods import changed, copy_of, make_pod, stored, texts, update_errors

FORBIDDEN = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
TOLERATION = {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}


def test_an_unchanged_pod_is_valid_and_keeps_its_generation() -> None:
    before = stored(make_pod())
    after = copy_of(before)
    prepare_pod_update(after, before, DEFAULTS)
    assert update_errors(after, before) == []
    assert after["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    "spec",
    [
        {"activeDeadlineSeconds": 5},
        {"tolerations": [TOLERATION, {"operator": "Exists"}]},
        {"tolerations": [{**TOLERATION, "tolerationSeconds": 9}]},
    ],
)
def test_the_few_mutable_fields(spec: dict[str, Any]) -> None:
    before = stored(make_pod(tolerations=[TOLERATION]))
    after = changed(before, **spec)
    assert update_errors(after, before) == []
    prepare_pod_update(after, before, DEFAULTS)
    assert after["metadata"]["generation"] == 2


def test_an_image_may_change() -> None:
    before = stored(make_pod())
    after = copy_of(before)
    after["spec"]["containers"][0]["image"] = "nginx:2"
    assert update_errors(after, before) == []


@pytest.mark.parametrize(
    "spec",
    [{"nodeName": "n1"}, {"priority": 5}, {"schedulerName": "x"}, {"hostNetwork": True}, {"affinity": {}}],
)
def test_everything_else_is_forbidden_with_a_diff(spec: dict[str, Any]) -> None:
    before = stored(make_pod())
    (error,) = update_errors(changed(before, **spec), before)
    assert error.startswith(FORBIDDEN)
    assert f'+  "{next(iter(spec))}"' in error


def test_resources_cannot_change_through_the_pod_itself() -> None:
    before = stored(make_pod(container={"resources": {"requests": {"cpu": "1"}}}))
    after = copy_of(before)
    after["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    (error,) = update_errors(after, before)
    assert error.startswith(FORBIDDEN)


@pytest.mark.parametrize(
    ("spec", "other"),
    [
        ({"tolerations": []}, {"tolerations": None}),
        ({"nodeSelector": {}}, {"nodeSelector": None}),
        ({"hostNetwork": False}, {"hostNetwork": None}),
        ({"overhead": {"cpu": "1000m"}}, {"overhead": {"cpu": "1"}}),
    ],
)
def test_empty_and_absent_are_the_same_and_amounts_are_numbers(spec: dict[str, Any], other: dict[str, Any]) -> None:
    before = changed(stored(make_pod()), **spec)
    assert update_errors(changed(before, **other), before) == []


def test_false_and_absent_differ_for_pointer_fields() -> None:
    before = stored(make_pod(hostUsers=True))
    (error,) = update_errors(changed(before, hostUsers=None), before)
    assert error.startswith(FORBIDDEN)


def test_containers_can_be_neither_added_nor_removed() -> None:
    before = stored(make_pod())
    after = copy_of(before)
    after["spec"]["containers"] *= 2
    assert (
        update_errors(after, before)[-1] == "spec.containers: Forbidden: pod updates may not add or remove containers"
    )


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (5, 6, "6: must be less than or equal to previous value"),
        (5, None, "null: must not update from a positive integer to nil value"),
    ],
)
def test_a_deadline_may_only_decrease(old: int, new: int | None, error: str) -> None:
    before = stored(make_pod(activeDeadlineSeconds=old))
    assert update_errors(changed(before, activeDeadlineSeconds=new), before)[0] == (
        f"spec.activeDeadlineSeconds: Invalid value: {error}"
    )


def test_an_existing_toleration_is_immutable() -> None:
    before = stored(make_pod(tolerations=[TOLERATION]))
    assert update_errors(changed(before, tolerations=[]), before) == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_a_stored_negative_grace_period_may_become_one_second() -> None:
    before = changed(stored(make_pod()), terminationGracePeriodSeconds=-3)
    assert update_errors(changed(before, terminationGracePeriodSeconds=1), before) == []
    assert update_errors(changed(before, terminationGracePeriodSeconds=2), before) != []


def test_the_mirror_annotation_can_be_neither_added_nor_removed() -> None:
    plain = stored(make_pod(nodeName="n"))
    mirror = copy_of(plain)
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    path = "metadata.annotations[kubernetes.io/config.mirror]: Forbidden: "
    assert update_errors(mirror, plain) == [f"{path}may not add mirror pod annotation"]
    assert update_errors(plain, mirror) == [f"{path}may not remove or update mirror pod annotation"]


def status_errors(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    prepare_pod_status_update(new, old)
    new["metadata"]["deletionTimestamp"] = old["metadata"].get("deletionTimestamp")
    return texts(validate_pod_status_update(new, old, DEFAULTS))


def with_status(pod: dict[str, Any], **status: Any) -> dict[str, Any]:
    new = copy_of(pod)
    new["status"].update(status)
    return new


def test_a_status_update_does_not_change_spec_owners_and_deletion() -> None:
    before = stored(make_pod(metadata={"ownerReferences": [{"uid": "o"}]}))
    after = with_status(changed(before, nodeName="n1"), phase="Running")
    after["metadata"].update(ownerReferences=[], deletionTimestamp="2030-01-01T00:00:00Z")
    prepare_pod_status_update(after, before)
    assert after["spec"] == before["spec"]
    assert after["metadata"] == before["metadata"]
    assert after["status"]["phase"] == "Running"


def test_a_status_update_does_not_clear_observed_generations() -> None:
    conditions = [{"type": "Ready", "status": "True", "observedGeneration": 3}]
    before = with_status(stored(make_pod()), observedGeneration=4, conditions=conditions)
    after = with_status(before)
    after["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    prepare_pod_status_update(after, before)
    assert after["status"] == {
        "qosClass": "BestEffort",
        "observedGeneration": 4,
        "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 3}],
    }


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        ({"qosClass": "Guaranteed"}, ['status.qosClass: Invalid value: "Guaranteed": field is immutable']),
        (
            {"observedGeneration": -1},
            ["status.observedGeneration: Invalid value: -1: must be a non-negative integer"],
        ),
        (
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]},
            [
                'status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: may specify no more than one IP '
                "for each IP family"
            ],
        ),
        (
            {"hostIPs": [{"ip": "10.0.0.1"}]},
            ['status.hostIPs[0].ip: Invalid value: "10.0.0.1": must be equal to `hostIP`'],
        ),
        (
            {"resourceClaimStatuses": [{"name": "x"}]},
            [
                'status.resourceClaimStatuses[0].name: Invalid value: "x": must match the name of an entry in '
                "`spec.resourceClaims`"
            ],
        ),
    ],
)
def test_an_invalid_status(status: dict[str, Any], errors: list[str]) -> None:
    before = stored(make_pod())
    assert status_errors(with_status(before, **status), before) == errors


def test_a_bound_pod_is_not_nominated() -> None:
    before = stored(make_pod(nodeName="n1"))
    assert status_errors(with_status(before, nominatedNodeName="n2"), before) == [
        "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"
    ]


@pytest.mark.parametrize(
    ("policy", "container", "exit_code", "may_restart"),
    [
        ("Always", {}, 0, True),
        ("OnFailure", {}, 1, True),
        ("OnFailure", {}, 0, False),
        ("Never", {}, 1, False),
        ("Never", {"restartPolicy": "OnFailure"}, 1, True),
        (
            "Never",
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            },
            42,
            True,
        ),
    ],
)
def test_a_terminated_container_runs_again_only_by_its_restart_policy(
    policy: str, container: dict[str, Any], exit_code: int, may_restart: bool
) -> None:
    ended = [{"name": "c", "state": {"terminated": {"exitCode": exit_code}}}]
    before = with_status(stored(make_pod(restartPolicy=policy, container=container)), containerStatuses=ended)
    after = with_status(before, containerStatuses=[{"name": "c", "state": {"running": {}}}])
    error = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    assert status_errors(after, before) == ([] if may_restart else [error])


def resize(before: dict[str, Any], resources: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    after = copy_of(before)
    after["spec"]["containers"][0]["resources"] = resources
    prepare_pod_resize(after, before, DEFAULTS)
    return after, texts(validate_pod_resize(after, before, DEFAULTS))


def sized(**spec: Any) -> dict[str, Any]:
    return stored(make_pod(container={"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}, **spec))


def test_cpu_of_a_gated_pod_can_be_resized_and_its_gates_stay() -> None:
    before = sized(schedulingGates=[{"name": "foo"}])
    after, errors = resize(before, {"requests": {"cpu": "2", "memory": "1Gi"}})
    assert errors == []
    assert after["spec"]["schedulingGates"] == [{"name": "foo"}]
    assert after["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("resources", "errors"),
    [
        (
            {"requests": {"cpu": "1"}},
            ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"],
        ),
        (
            {"requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}},
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            ['spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing'],
        ),
    ],
)
def test_a_resize_changes_cpu_and_memory_and_nothing_else(resources: dict[str, Any], errors: list[str]) -> None:
    assert resize(sized(), resources)[1] == errors


def test_a_resize_ignores_changes_of_other_fields() -> None:
    before = sized()
    after = changed(before, schedulerName="x")
    after["metadata"]["labels"] = {"a": "b"}
    after["spec"]["containers"][0]["image"] = "other"
    prepare_pod_resize(after, before, DEFAULTS)
    assert after == before


def test_a_resize_does_not_rename_containers() -> None:
    before = sized()
    after = copy_of(before)
    after["spec"]["containers"][0]["name"] = "other"
    prepare_pod_resize(after, before, DEFAULTS)
    assert texts(validate_pod_resize(after, before, DEFAULTS)) == [
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    ]


@pytest.mark.parametrize(
    ("metadata", "spec", "error"),
    [
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, {"nodeName": "n"}, "static pods cannot be resized"),
        ({}, {"os": {"name": "windows"}}, "windows pods cannot be resized"),
    ],
)
def test_some_pods_cannot_be_resized_at_all(metadata: dict[str, Any], spec: dict[str, Any], error: str) -> None:
    before = stored(make_pod(metadata=metadata, **spec))
    assert resize(before, {})[1] == [f"[]: Forbidden: {error}"]


def ephemeral(before: dict[str, Any], *containers: dict[str, Any]) -> list[str]:
    after = changed(before, ephemeralContainers=list(containers), schedulerName="ignored")
    prepare_pod_ephemeral_containers(after, before, DEFAULTS)
    assert after["spec"]["schedulerName"] == before["spec"]["schedulerName"]
    return texts(validate_pod_ephemeral_containers(after, before, DEFAULTS))


DEBUGGER = {"name": "d", "image": "x", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}


def test_ephemeral_containers_can_be_added_but_not_changed_or_removed() -> None:
    before = stored(make_pod())
    assert ephemeral(before, DEBUGGER) == []
    with_one = changed(before, ephemeralContainers=[DEBUGGER])
    assert ephemeral(with_one, DEBUGGER, {**DEBUGGER, "name": "e"}) == []
    assert ephemeral(with_one) == [
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed\n'
    ]
    (error,) = ephemeral(with_one, {**DEBUGGER, "image": "y"})
    assert error.startswith(
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be changed\n'
    )


def test_an_ephemeral_container_has_no_ports_and_a_unique_name() -> None:
    errors = ephemeral(
        stored(make_pod()), {**DEBUGGER, "name": "c", "ports": [{"containerPort": 1, "protocol": "TCP"}]}
    )
    assert errors == [
        'spec.ephemeralContainers[0].name: Duplicate value: "c"',
        "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
    ]


@pytest.mark.parametrize(
    ("spec", "phase", "asked_s", "grace_s"),
    [
        ({}, "Pending", 60, 0),
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", -5, 1),
        ({"nodeName": "n"}, "Succeeded", 60, 0),
    ],
)
def test_only_a_running_pod_has_a_grace_period(
    spec: dict[str, Any], phase: str, asked_s: int | None, grace_s: int
) -> None:
    pod = with_status(stored(make_pod(**spec)), phase=phase)
    assert grace_period_s(pod, asked_s) == grace_s
