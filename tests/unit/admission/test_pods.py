"""Admission of pods. The ids W1 to W10 are the statements about the webhook in the specification of the queue gate."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.admission.admission_review import ALLOWED, AdmissionRequest, AdmissionResponse
from headgate.admission.pods import gate_new_pod, reject_binding_with_stamp, reject_stamp_change
from headgate.admission.settings import AdmissionSettings, Object
from headgate.apimachinery.patch.json_patch import apply_json_patch
from headgate.apimachinery.patch.result import PatchResult
from headgate.capacity.kinds.queue_rules import QueueLister
from headgate.capacity.names import GATE, GROUP_NAMES, LAPSED, LEASE, OPT_IN, QUEUE_NAME, STAMP
from headgate.kube.api_resources import APIResource
from unit.admission.fake_cluster_view import SETTINGS, FakeClusterView, a_create, an_update

OPTED: dict[str, str] = {OPT_IN: "true"}
ALL_PODS = msgspec.structs.replace(SETTINGS, gates_all_pods=True)


def asked(
    request: AdmissionRequest, view: FakeClusterView | None = None, settings: AdmissionSettings = SETTINGS
) -> AdmissionResponse:
    return gate_new_pod(request, settings, view or FakeClusterView())


def became(
    request: AdmissionRequest, view: FakeClusterView | None = None, settings: AdmissionSettings = SETTINGS
) -> Any:
    made = apply_json_patch(request.obj, list(asked(request, view, settings).patch))
    assert isinstance(made, PatchResult), made
    return made.value


def gates(pod: Any) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def test_gate_and_annotation_have_the_name_in_the_design() -> None:
    name = "scheduling.volcano.sh/queue-allocation-gate"
    assert gates(became(a_create({name: "true"}))) == [name]


def test_w1_a_pod_without_gates_that_opts_in_gets_a_list_with_the_queue_gate() -> None:
    answer = asked(a_create(OPTED))
    assert answer == AdmissionResponse(
        patch=({"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]},)
    )


def test_w2_foreign_gates_are_kept_in_order_before_the_queue_gate() -> None:
    pod = became(a_create(OPTED, schedulingGates=[{"name": "x"}, {"name": "a"}]))
    assert gates(pod) == ["x", "a", GATE]


@pytest.mark.parametrize("others", [[], ["x"], ["x", "y"]])
def test_w3_a_pod_with_the_queue_gate_is_not_patched(others: list[str]) -> None:
    listed = [{"name": name} for name in (*others, GATE)]
    assert asked(a_create(OPTED, schedulingGates=listed)) == ALLOWED
    assert asked(a_create(OPTED, schedulingGates=listed[::-1])) == ALLOWED


def test_w3_a_second_call_for_a_patched_pod_changes_nothing() -> None:
    request = a_create({STAMP: "mine", "other": "kept"}, schedulingGates=[{"name": "x"}])
    again = msgspec.structs.replace(request, obj=became(request, settings=ALL_PODS))
    assert asked(again, settings=ALL_PODS) == ALLOWED


def test_w4_an_empty_list_is_appended_to() -> None:
    answer = asked(a_create(OPTED, schedulingGates=[]))
    assert answer.patch == ({"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": GATE}},)
    assert gates(became(a_create(OPTED, schedulingGates=[]))) == [GATE]


@pytest.mark.parametrize("value", [None, "", "false", "True", "TRUE", "1", "yes", " true", "true ", "truе", "t"])
def test_w5_what_is_not_exactly_true_sets_no_gate(value: str | None) -> None:
    answer = asked(a_create(None if value is None else {OPT_IN: value}))
    assert (answer.patch, answer.refusal) == ((), "")


@pytest.mark.parametrize("value", ["", "True", "1", "truе"])
def test_a_value_that_is_almost_true_is_warned_about(value: str) -> None:
    (warning,) = asked(a_create({OPT_IN: value})).warnings
    assert f"metadata.annotations[{OPT_IN}]" in warning
    assert "is ignored" in warning


def test_an_invalid_lease_of_a_pod_that_opts_in_is_warned_about() -> None:
    text = (
        "metadata.annotations[headgate.dev/reservation-lease]: 'soon' is neither a duration above 0 and up to "
        "2562047h, such as 10m, nor never; it is ignored"
    )
    assert asked(a_create({**OPTED, LEASE: "soon"})).warnings == (text,)
    assert asked(a_create({LEASE: "soon"}), settings=ALL_PODS).warnings == (text,)
    assert asked(a_create({LEASE: "soon"})).warnings == (), "it takes no part in the queue gate"


@pytest.mark.parametrize(("before", "after", "count"), [("5m", "soon", 1), ("soon", "soon", 0), ("soon", "5m", 0)])
def test_a_lease_that_becomes_invalid_is_warned_about(before: str, after: str, count: int) -> None:
    request = an_update({LEASE: before}, {LEASE: after})
    response = reject_stamp_change(request, SETTINGS, FakeClusterView())
    assert (response.refusal, len(response.warnings)) == ("", count)


@pytest.mark.parametrize("value", [None, "true", "false"])
def test_a_value_that_means_something_is_not_warned_about(value: str | None) -> None:
    assert asked(a_create(None if value is None else {OPT_IN: value})).warnings == ()


def test_w6_with_the_feature_off_nothing_is_changed() -> None:
    off = msgspec.structs.replace(ALL_PODS, queue_gate_enabled=False)
    assert asked(a_create({**OPTED, STAMP: "x"}), settings=off) == ALLOWED
    assert reject_stamp_change(an_update({}, {STAMP: "x"}), off, FakeClusterView()) == ALLOWED
    assert reject_binding_with_stamp(a_create({STAMP: "x"}), off, FakeClusterView()) == ALLOWED


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT"])
def test_w7_another_operation_than_create_is_an_error(operation: str) -> None:
    request = msgspec.structs.replace(a_create(OPTED), operation=operation)
    assert asked(request) == AdmissionResponse(refusal="expect operation to be 'CREATE'", code=400)


@pytest.mark.parametrize("scheduler", ["default-scheduler", "volcano", "", None])
def test_w8_a_pod_of_another_scheduler_gets_no_gate_and_a_warning_if_it_opted_in(scheduler: str | None) -> None:
    answer = asked(a_create(OPTED, schedulerName=scheduler))
    assert answer.patch == ()
    assert "does not serve spec.schedulerName" in answer.warnings[0]
    assert asked(a_create(schedulerName=scheduler), settings=ALL_PODS) == ALLOWED


def test_w8_a_pod_without_a_scheduler_name_belongs_to_the_default_scheduler() -> None:
    ours = msgspec.structs.replace(SETTINGS, schedulers=frozenset({"default-scheduler"}))
    assert gates(became(a_create(OPTED, schedulerName=None), settings=ours)) == [GATE]


def test_w9_a_pod_that_has_its_node_gets_no_gate() -> None:
    assert asked(a_create(OPTED, nodeName="n")) == ALLOWED
    assert asked(a_create(nodeName="n"), settings=ALL_PODS) == ALLOWED


def test_w10_nothing_but_the_pod_is_needed_to_gate_it() -> None:
    class Blind(FakeClusterView):
        def get(self, resource: APIResource, namespace: str, name: str, uid: str = "") -> Object | None:
            raise AssertionError(f"asked for {resource.plural} {name}")

        @property
        def queues(self) -> QueueLister:
            raise AssertionError("asked for all queues")

        def group_count(self, queue: str) -> int:
            raise AssertionError(f"asked who is in {queue}")

    assert gate_new_pod(a_create(OPTED), SETTINGS, Blind()).patch


def test_the_other_parts_of_a_pod_stay_as_they_are() -> None:
    request = a_create({**OPTED, "note": "kept"}, schedulingGates=[{"name": "x"}], containers=[{"name": "c"}])
    before = msgspec.json.encode(request.obj)
    pod = became(request)
    assert msgspec.json.encode(request.obj) == before
    assert pod["spec"].pop("schedulingGates") == [{"name": "x"}, {"name": GATE}]
    rest = msgspec.json.decode(before)
    rest["spec"].pop("schedulingGates")
    assert pod == rest


@pytest.mark.parametrize("annotations", [None, {}, {"note": "kept"}, {OPT_IN: "True"}, {OPT_IN: ""}])
def test_an_opt_in_by_queue_or_namespace_is_written_to_the_pod(annotations: dict[str, str] | None) -> None:
    pod = became(a_create(annotations), settings=ALL_PODS)
    assert pod["metadata"]["annotations"] == {**(annotations or {}), OPT_IN: "true"}
    assert gates(pod) == [GATE]


def test_the_annotation_of_the_pod_overrides_queue_and_namespace() -> None:
    view = FakeClusterView().namespace("t", opt_in="true").queue("default", annotations=OPTED)
    assert asked(a_create({OPT_IN: "false"}), view, ALL_PODS) == ALLOWED


@pytest.mark.parametrize(
    ("queue", "namespace", "everybody", "is_gated"),
    [
        (None, None, False, False),
        (None, None, True, True),
        ("true", None, False, True),
        (None, "true", False, True),
        ("false", "true", True, False),
        ("true", "false", False, True),
        (None, "false", True, False),
        ("True", None, False, False),
        ("True", "true", False, True),
        ("", "yes", True, True),
    ],
)
def test_the_nearest_annotation_counts(
    queue: str | None, namespace: str | None, everybody: bool, is_gated: bool
) -> None:
    view = FakeClusterView().queue("default", annotations={} if queue is None else {OPT_IN: queue})
    view.namespace("t", **({} if namespace is None else {"opt_in": namespace}))
    pod = became(a_create(), view, msgspec.structs.replace(SETTINGS, gates_all_pods=everybody))
    assert gates(pod) == ([GATE] if is_gated else [])


@pytest.mark.parametrize(
    ("annotations", "is_gated"),
    [
        ({}, False),  # the namespace's queue
        ({QUEUE_NAME: "gating"}, True),
        ({QUEUE_NAME: "missing"}, False),
        ({GROUP_NAMES[0]: "in-gating"}, True),
        ({GROUP_NAMES[1]: "in-gating"}, True),
        ({GROUP_NAMES[0]: "without", QUEUE_NAME: "gating"}, True),
        ({GROUP_NAMES[0]: "in-plain", QUEUE_NAME: "gating"}, False),
        ({GROUP_NAMES[0]: "to-come", QUEUE_NAME: "gating"}, False),  # not known yet
        ({GROUP_NAMES[0]: "elsewhere", QUEUE_NAME: "gating"}, False),  # a group of another namespace
    ],
)
def test_the_opt_in_of_the_pods_queue_counts(annotations: dict[str, str], is_gated: bool) -> None:
    view = FakeClusterView().namespace("t", queue="plain").queue("plain").queue("gating", annotations=OPTED)
    view.group("in-gating", queue="gating").group("in-plain", queue="plain").group("without")
    view.group("elsewhere", namespace="other", queue="gating")
    assert gates(became(a_create(annotations), view)) == ([GATE] if is_gated else [])


def test_a_queue_gate_without_opt_in_gets_a_warning() -> None:
    answer = asked(a_create(schedulingGates=[{"name": GATE}]))
    assert answer.patch == ()
    assert "not lifted" in answer.warnings[0]


def test_a_gated_pod_that_is_opted_in_by_its_queue_gets_only_the_annotation() -> None:
    answer = asked(a_create(schedulingGates=[{"name": GATE}]), settings=ALL_PODS)
    assert answer == AdmissionResponse(
        patch=({"op": "add", "path": "/metadata/annotations", "value": {OPT_IN: "true"}},)
    )


@pytest.mark.parametrize("user", ["alice", "headgate-itself"])
@pytest.mark.parametrize("scheduler", ["headgate", "default-scheduler"])
def test_a_stamp_on_a_new_pod_is_removed(user: str, scheduler: str) -> None:
    pod = became(a_create({STAMP: "forged", "note": "kept"}, user=user, schedulerName=scheduler))
    assert pod["metadata"]["annotations"] == {"note": "kept"}


def test_a_forged_stamp_does_not_prevent_the_gate() -> None:
    pod = became(a_create({**OPTED, STAMP: "forged"}))
    assert (pod["metadata"]["annotations"], gates(pod)) == (OPTED, [GATE])


@pytest.mark.parametrize("key", [STAMP, LAPSED])
@pytest.mark.parametrize(("old", "new"), [(None, "x"), ("x", "y"), ("x", None), (None, ""), ("", None)])
def test_only_headgate_can_write_a_stamp_or_a_record_of_lapses(key: str, old: str | None, new: str | None) -> None:
    before, after = ({} if each is None else {key: each} for each in (old, new))
    refusal = reject_stamp_change(an_update(before, after), SETTINGS, FakeClusterView()).refusal
    assert refusal.startswith(f"metadata.annotations[{key}]: only Headgate itself")
    assert '"alice"' in refusal
    assert reject_stamp_change(an_update(before, after, user="headgate-itself"), SETTINGS, FakeClusterView()) == ALLOWED


def test_an_update_without_a_change_of_the_stamp_is_allowed() -> None:
    kept = {STAMP: "x", "note": "one"}
    assert reject_stamp_change(an_update(kept, {**kept, "note": "two"}), SETTINGS, FakeClusterView()) == ALLOWED
    assert reject_stamp_change(an_update({}, {OPT_IN: "false"}), SETTINGS, FakeClusterView()) == ALLOWED


@pytest.mark.parametrize("key", [STAMP, LAPSED])
def test_a_binding_with_a_forged_stamp_or_record_of_lapses_is_rejected(key: str) -> None:
    assert reject_binding_with_stamp(a_create({key: "x"}), SETTINGS, FakeClusterView()).refusal
    assert (
        reject_binding_with_stamp(a_create({key: "x"}, user="headgate-itself"), SETTINGS, FakeClusterView()) == ALLOWED
    )
    assert reject_binding_with_stamp(a_create({"note": "x"}), SETTINGS, FakeClusterView()) == ALLOWED


@pytest.mark.parametrize("namespace", ["kube-system", "headgate-system"])
def test_exempt_namespaces_are_not_changed(namespace: str) -> None:
    request = msgspec.structs.replace(a_create(OPTED), namespace=namespace)
    assert asked(request, settings=ALL_PODS) == ALLOWED


@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {"annotations": []}, "spec": []},
        {"metadata": {"annotations": {OPT_IN: 1}}, "spec": {"schedulerName": "headgate"}},
        {"metadata": {"annotations": OPTED}, "spec": {"schedulerName": "headgate", "schedulingGates": [None, {}, "x"]}},
        {"metadata": {"annotations": {QUEUE_NAME: 7}}, "spec": {}},
    ],
)
def test_an_invalid_object_raises_nothing(obj: dict[str, Any]) -> None:
    request = AdmissionRequest("CREATE", "pods", "t", "p", obj=obj)
    assert not asked(request).refusal
    assert (
        reject_stamp_change(msgspec.structs.replace(request, operation="UPDATE"), SETTINGS, FakeClusterView())
        == ALLOWED
    )
