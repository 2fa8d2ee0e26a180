"""Pods on their way in, on both servers: the embedded one answers in its own process, a real one asks webhooks.

The ids W1 to W10 are the statements about the webhook in the queue gate's specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.embedded_server import EmbeddedServer
from harness.scheduler_process import wait_for
from harness.server import Answer, Server
from harness.server_kinds import SERVER_KINDS, running_server
from harness.users import ALICE, bearing
from harness.webhooks import WebhookProcess, adds_gates, prepare, sent
from headgate.capacity.names import GATE, GROUP_NAMES, OPT_IN, QUEUE_NAME, STAMP

PODS = "/api/v1/namespaces/default/pods"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(f"admission-{request.param}")
    with running_server(request.param, folder, kube_binaries) as running:
        prepare(running)
        if request.param == "embedded":
            yield running
            return
        webhooks = WebhookProcess(running, folder / "webhooks.log")
        wrong = {**QUEUE, "metadata": {"name": "wrong"}, "spec": {"capability": {"cpu": "1"}, "deserved": {"cpu": "2"}}}
        try:
            # An API server learns of each of the two configurations by a watch.
            wait_for(lambda: adds_gates(running), webhooks)
            wait_for(lambda: sent(running, "POST", f"{QUEUES}?dryRun=All", wrong).status == 403, webhooks)
            yield running
        finally:
            webhooks.stop()


def a_pod(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name}
    if annotations is not None:
        metadata["annotations"] = annotations
    containers = [{"name": "c", "image": "i"}]
    return {"metadata": metadata, "spec": {"schedulerName": "headgate", "containers": containers, **spec}}


def create(server: Server, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    answer = sent(server, "POST", PODS, a_pod(name, annotations, **spec), as_alice=True)
    assert answer.status == 201, answer.body
    return answer.json()


def gates(pod: Any) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def warnings(answer: Answer) -> list[str]:
    return [value for name, value in answer.headers if name == "warning"]


def test_w1_a_pod_that_opts_in_is_gated_and_its_condition_says_so(server: Server) -> None:
    pod = create(server, "w1", {OPT_IN: "true"})
    assert gates(pod) == [GATE]
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_w2_foreign_gates_are_kept_in_their_order(server: Server) -> None:
    listed = [{"name": "x.example.com/b"}, {"name": "x.example.com/a"}]
    pod = create(server, "w2", {OPT_IN: "true"}, schedulingGates=listed)
    assert gates(pod) == ["x.example.com/b", "x.example.com/a", GATE]


def test_w3_a_pod_that_brings_our_gate_has_it_once(server: Server) -> None:
    pod = create(server, "w3", {OPT_IN: "true"}, schedulingGates=[{"name": GATE}, {"name": "x.example.com/a"}])
    assert gates(pod) == [GATE, "x.example.com/a"]


def test_w4_an_empty_list_of_gates_is_added_to(server: Server) -> None:
    assert gates(create(server, "w4", {OPT_IN: "true"}, schedulingGates=[])) == [GATE]


def test_w5_what_is_almost_true_is_not_true_and_is_warned_about(server: Server) -> None:
    for number, value in enumerate(["", "True", "TRUE", "1", "yes", " true"]):
        answer = sent(server, "POST", PODS, a_pod(f"w5-{number}", {OPT_IN: value}), as_alice=True)
        assert gates(answer.json()) == [], value
        assert any(OPT_IN in text for text in warnings(answer)), (value, answer.headers)
    for number, said in enumerate([None, {}, {OPT_IN: "false"}]):
        answer = sent(server, "POST", PODS, a_pod(f"w5-plain-{number}", said), as_alice=True)
        assert (gates(answer.json()), warnings(answer)) == ([], [])


def test_w7_a_pod_that_opts_in_after_its_creation_is_not_gated(server: Server) -> None:
    create(server, "w7")
    later = sent(server, "PATCH", f"{PODS}/w7", {"metadata": {"annotations": {OPT_IN: "true"}}}, as_alice=True)
    assert later.status == 200
    assert gates(later.json()) == []


def test_w8_u8_a_pod_of_another_scheduler_is_never_gated(server: Server) -> None:
    answer = sent(server, "POST", PODS, a_pod("w8", {OPT_IN: "true"}, schedulerName="another"), as_alice=True)
    assert gates(answer.json()) == []
    assert any("does not serve" in text for text in warnings(answer))


def test_w9_a_pod_that_names_its_node_is_created_without_a_gate(server: Server) -> None:
    assert gates(create(server, "w9", {OPT_IN: "true"}, nodeName="n1")) == []


def test_w10_u9_a_pod_is_gated_whatever_else_there_is_or_is_not(server: Server) -> None:
    said = {OPT_IN: "true", QUEUE_NAME: "not-there", GROUP_NAMES[0]: "not-there-either"}
    assert gates(create(server, "w10", said)) == [GATE]


def test_a_dry_run_shows_the_gate(server: Server) -> None:
    answer = sent(server, "POST", f"{PODS}?dryRun=All", a_pod("dry", {OPT_IN: "true"}), as_alice=True)
    assert gates(answer.json()) == [GATE]


def test_a_forged_stamp_is_taken_off_a_new_pod_and_refused_on_an_old_one(server: Server) -> None:
    pod = create(server, "forged", {OPT_IN: "true", STAMP: '{"uid":"x"}'})
    assert pod["metadata"]["annotations"] == {OPT_IN: "true"}
    assert gates(pod) == [GATE]
    path = f"{PODS}/forged"
    stamp = {"metadata": {"annotations": {STAMP: "forged"}}}
    refused = sent(server, "PATCH", path, stamp, as_alice=True)
    assert refused.status == 403
    assert f"metadata.annotations[{STAMP}]: only Headgate" in refused.json()["message"]
    assert sent(server, "PATCH", path, stamp).status == 200  # as Headgate itself
    for value in ("another", None):
        change = {"metadata": {"annotations": {STAMP: value}}}
        assert sent(server, "PATCH", path, change, as_alice=True).status == 403
    note = {"metadata": {"annotations": {"note": "free"}}}
    assert sent(server, "PATCH", path, note, as_alice=True).status == 200
    assert sent(server, "GET", path).json()["metadata"]["annotations"][STAMP] == "forged"


def test_a_namespace_opts_in_for_its_pods_and_a_pod_declines(server: Server) -> None:
    sent(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "eager", "annotations": {OPT_IN: "true"}}})
    pods = "/api/v1/namespaces/eager/pods"
    pod = sent(server, "POST", pods, a_pod("asked-for")).json()
    assert (gates(pod), pod["metadata"]["annotations"][OPT_IN]) == ([GATE], "true")
    assert gates(sent(server, "POST", pods, a_pod("declines", {OPT_IN: "false"})).json()) == []


def test_a_queue_opts_in_for_its_pods_at_once(server: Server) -> None:
    """A pod is created directly after its PodGroup: the webhook reads what its watch has not delivered yet."""
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "spec": {"weight": 1}}
    metadata = {"name": "eager", "annotations": {OPT_IN: "true"}}
    made = sent(server, "POST", QUEUES, {**queue, "metadata": metadata})
    assert made.status == 201, made.body
    assert gates(create(server, "by-annotation", {QUEUE_NAME: "eager"})) == [GATE]
    for number in range(5):
        group: dict[str, Any] = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        group |= {"metadata": {"name": f"g{number}"}, "spec": {"minMember": 1, "queue": "eager"}}
        assert sent(server, "POST", GROUPS, group).status == 201
        assert gates(create(server, f"by-group-{number}", {GROUP_NAMES[0]: f"g{number}"})) == [GATE]
    assert gates(create(server, "elsewhere", {QUEUE_NAME: "default"})) == []


def test_a_group_may_not_join_a_closed_queue_or_one_with_queues_below_it(server: Server) -> None:
    for name, spec in (("shut", {}), ("parent", {}), ("child", {"parent": "parent"})):
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        assert sent(server, "POST", QUEUES, {**queue, "spec": {"weight": 1, **spec}}).status == 201
    assert sent(server, "PATCH", f"{QUEUES}/shut/status", {"status": {"state": "Closed"}}).status == 200
    base = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}

    def join(queue: str, dry: bool = True) -> Answer:
        body = {**base, "metadata": {"name": f"in-{queue}"}, "spec": {"minMember": 1, "queue": queue}}
        return sent(server, "POST", GROUPS + ("?dryRun=All" if dry else ""), body)

    shut = wait_for(lambda: (answer := join("shut")).status == 403 and answer)
    assert "queue `shut` status is `Closed`" in shut.json()["message"]
    parent = wait_for(lambda: (answer := join("parent")).status == 403 and answer)
    assert "can only submit PodGroup to leaf queue" in parent.json()["message"]
    assert join("child").status == 201
    missing = join("to-come")
    assert missing.status == 201
    assert any("does not exist yet" in text for text in warnings(missing))
    assert gates(create(server, "bare", {QUEUE_NAME: "shut"})) == []  # a pod is never refused


def test_w6_with_the_feature_off_nothing_is_touched(tmp_path: Path) -> None:
    off = EmbeddedServer(tmp_path, flags=("--feature-gates", "QueueAllocationGate=false"))
    try:
        pod = sent(off, "POST", PODS, a_pod("w6", {OPT_IN: "true", STAMP: "kept"})).json()
        assert (gates(pod), pod["metadata"]["annotations"]) == ([], {OPT_IN: "true", STAMP: "kept"})
    finally:
        off.disconnect()
        off.stop()


def test_a_whole_cluster_opts_in_and_trusts_by_name(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path, flags=("--gate-all-pods", "--trusted-user", "alice"))
    try:
        prepare(server)
        pod = create(server, "says-nothing")
        assert (gates(pod), pod["metadata"]["annotations"]) == ([GATE], {OPT_IN: "true"})
        assert gates(create(server, "declines", {OPT_IN: "false"})) == []
        assert gates(create(server, "elsewhere", schedulerName="default-scheduler")) == []
        stamp = {"metadata": {"annotations": {STAMP: "hers"}}}
        assert sent(server, "PATCH", f"{PODS}/says-nothing", stamp, as_alice=True).status == 200
    finally:
        server.disconnect()
        server.stop()


def test_two_hundred_pods_at_once_are_all_gated(server: Server) -> None:
    def make(number: int) -> list[str]:
        return gates(create(server, f"many-{number}", {OPT_IN: "true"}, schedulingGates=[{"name": "x.example.com/a"}]))

    with ThreadPoolExecutor(20) as threads:
        assert list(threads.map(make, range(200))) == [["x.example.com/a", GATE]] * 200


def asks_for(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}


def resize(server: Server, name: str, cpu: str, query: str = "") -> tuple[int, str]:
    body = json.dumps({"spec": asks_for(cpu)}).encode()
    headers = {"Content-Type": "application/strategic-merge-patch+json", **bearing(ALICE)}
    answer = server.request("PATCH", f"{PODS}/{name}/resize{query}", headers, body)
    return answer.status, str(answer.json().get("message") or "")


def test_a_pod_on_a_node_is_not_resized_over_the_limit_of_its_queue_and_others_may_ask_for_more(
    server: Server,
) -> None:
    spec = {"capability": {"cpu": "4"}}
    assert sent(server, "POST", QUEUES, {**QUEUE, "metadata": {"name": "narrow"}, "spec": spec}).status == 201
    status = {"status": {"allocated": {"cpu": "2"}, "reserved": {"cpu": "1"}}}
    assert sent(server, "PATCH", f"{QUEUES}/narrow/status", status).status == 200
    create(server, "resized-runs", {QUEUE_NAME: "narrow"}, nodeName="somewhere", **asks_for("1"))
    create(server, "resized-gated", {QUEUE_NAME: "narrow", OPT_IN: "true"}, **asks_for("1"))
    create(
        server,
        "resized-elsewhere",
        {QUEUE_NAME: "narrow"},
        nodeName="somewhere",
        schedulerName="other",
        **asks_for("1"),
    )

    # A dry run: before the status of the queue is known the pod would become larger.
    wait_for(lambda: resize(server, "resized-runs", "3", "?dryRun=All")[0] == 403)
    assert says(resize(server, "resized-runs", "3")[1]).startswith(
        "spec.containers: queue narrow has no capacity for 2 cpu: 3 of 4 are in use or promised; "
    )
    assert resize(server, "resized-gated", "3") == (200, "")
    assert resize(server, "resized-elsewhere", "3") == (200, "")
    assert resize(server, "resized-runs", "2") == (200, "")
    assert resize(server, "resized-runs", "1") == (200, "")


def test_resizes_at_once_do_not_exceed_the_limit_of_their_queue_together(server: Server) -> None:
    spec = {"capability": {"cpu": "9"}}
    assert sent(server, "POST", QUEUES, {**QUEUE, "metadata": {"name": "shared"}, "spec": spec}).status == 201
    status = {"status": {"allocated": {"cpu": "8"}}}
    assert sent(server, "PATCH", f"{QUEUES}/shared/status", status).status == 200
    for name in ("at-once-1", "at-once-2"):
        create(server, name, {QUEUE_NAME: "shared"}, nodeName="somewhere", **asks_for("4"))
    wait_for(lambda: "8 of 9" in resize(server, "at-once-1", "13", "?dryRun=All")[1])
    assert resize(server, "at-once-1", "5") == (200, "")
    status_code, message = resize(server, "at-once-2", "5")
    assert status_code == 403
    assert says(message).startswith(
        "spec.containers: queue shared has no capacity for 1 cpu: 9 of 9 are in use or promised; "
    )


def says(message: str) -> str:
    """The text of Headgate in a refusal, without the prefix of the API server."""
    return message[message.index("spec.containers") :]


def test_a_limit_of_nothing_is_kept_and_warned_about(server: Server) -> None:
    nothing = {**QUEUE, "metadata": {"name": "nothing"}, "spec": {"capability": {"cpu": "0", "memory": "1Gi"}}}
    answer = sent(server, "POST", QUEUES, nothing, as_alice=True)
    assert (answer.status, answer.json()["spec"]["capability"]["cpu"]) == (201, "0")
    (text,) = warnings(answer)
    assert "spec.capability.cpu: 0 means that the queue may use no cpu at all; Volcano takes it for no limit" in text
    later = sent(server, "PATCH", f"{QUEUES}/nothing", {"spec": {"weight": 3}}, as_alice=True)
    assert (later.status, warnings(later)) == (200, [])


def test_a_limit_of_pods_is_stored_with_a_warning_that_it_has_no_effect(server: Server) -> None:
    pods = {**QUEUE, "metadata": {"name": "few-pods"}, "spec": {"capability": {"pods": "1"}}}
    answer = sent(server, "POST", QUEUES, pods, as_alice=True)
    assert (answer.status, answer.json()["spec"]["capability"]["pods"]) == (201, "1")
    (text,) = warnings(answer)
    assert "spec.capability.pods: queues do not count pods, as in Volcano, so this has no effect" in text
    later = sent(server, "PATCH", f"{QUEUES}/few-pods", {"spec": {"weight": 3}}, as_alice=True)
    assert (later.status, warnings(later)) == (200, [])
