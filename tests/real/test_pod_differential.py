"""A large pod, wrong in thousands of ways, at a real server and through the pure functions: the same answers.

What is refused must be refused with the same causes in the same order; what is accepted must become the same
object, with the same warnings. Each endpoint of a pod has its own test. Every seventh way is tried unless
`HEADGATE_ALL_PODS=1`.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from harness.real_server import RealServer
from harness.server import Answer
from headgate import schemas as tables
from headgate.apimachinery.api_errors import GroupResource, invalid
from headgate.apimachinery.codec.codec import convert, wire_form
from headgate.apimachinery.codec.empty_collections import drop_empty_collections
from headgate.apimachinery.defaults.pod import default_pod
from headgate.apimachinery.pods.app_armor import app_armor_warnings
from headgate.apimachinery.strategy.contract import StrategyContext, UpdateRules
from headgate.apimachinery.strategy.pod import POD
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Operation
from headgate.apiserver.admission_plugins.plugin_table import builtin
from headgate.kube.feature_gates import DEFAULTS
from headgate.kube.field_errors import FieldErrors
from headgate.kube.schema import GroupVersionKind, Schemas
from headgate.kube.validation.object_meta import validate_common_meta, validate_common_meta_update
from real.pod_mutations import Object, big_pod, mutations

pytestmark = pytest.mark.real

SCHEMAS = Schemas.load(tables.read())
TYPE = SCHEMAS.kinds[GroupVersionKind("", "v1", "Pod")]
NAMESPACE = "pod-differential"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONTEXT = StrategyContext(now="2026-11-15T00:00:00Z", now_micro="2026-11-15T00:00:00.000000Z", features=DEFAULTS)
SERVERS_OWN = ("uid", "creationTimestamp", "resourceVersion", "managedFields")
_EMPTIED = re.compile(r"(Invalid value: |:)(?:\[\]|\{\})")
STEP = 1 if os.environ.get("HEADGATE_ALL_PODS") == "1" else 7

Mine = tuple[Object, FieldErrors, list[str]]
Case = tuple[str, Callable[[], Object]]


@pytest.fixture(scope="module")
def server(real_server: RealServer) -> RealServer:
    _send(real_server, "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return real_server


def _send(server: RealServer, method: str, path: str, body: Object) -> Answer:
    return server.request(method, path, {"Content-Type": "application/json"}, json.dumps(body).encode())


def _decoded(obj: Object) -> Object:
    decoded = convert(SCHEMAS, TYPE, obj)
    assert decoded.error is None, decoded.error
    return drop_empty_collections(SCHEMAS, TYPE, decoded.obj)


def _some(obj: Object, *roots: str) -> Iterator[Case]:
    return itertools.islice(mutations(obj, *roots), 0, None, STEP)


class OneNamespace:
    """A cluster with nothing in it but the namespace of the test."""

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        found: Object = {"metadata": {"name": name}, "status": {"phase": "Active"}}
        return found if resource == "namespaces" else None

    def labels(self, resource: str, namespace: str, name: str) -> Mapping[str, str] | None:
        return {} if resource == "namespaces" else None

    def list(self, resource: str, namespace: str | None) -> Iterable[Object]:
        return ()


def _admit(operation: Operation, pod: Object, old: Object | None) -> None:
    name = pod["metadata"].get("name", "")
    attributes = AdmissionAttributes(
        operation, GroupResource("", "pods"), "Pod", "", NAMESPACE, name, "admin", dry_run=True
    )
    assert builtin({"ServiceAccount"}).mutate(attributes, pod, old, OneNamespace()) is None


def _create(obj: Object) -> Mine:
    pod = _decoded(obj)
    pod["metadata"]["namespace"] = NAMESPACE
    default_pod(pod)
    _admit("CREATE", pod, None)
    warnings = app_armor_warnings(pod)
    POD.prepare_create(pod, CONTEXT)
    errors = POD.validate_create(pod, CONTEXT) or validate_common_meta(pod["metadata"], namespaced=True)
    return pod, errors, warnings + POD.warnings_create(pod, CONTEXT)


def _update(obj: Object, live: Object, rules: UpdateRules, *, is_pod: bool) -> Mine:
    pod, old = _decoded(obj), _decoded(live)
    default_pod(pod)
    if is_pod:
        _admit("UPDATE", pod, old)
    pod["metadata"]["generation"] = old["metadata"]["generation"]
    rules.prepare(pod, old, CONTEXT)
    pod["metadata"]["creationTimestamp"] = old["metadata"]["creationTimestamp"]
    errors = validate_common_meta_update(pod["metadata"], old["metadata"], namespaced=True)
    errors += rules.validate(pod, old, CONTEXT)
    return pod, errors, rules.warnings(pod, old, CONTEXT)


def _difference(answer: Answer, mine: Mine) -> str:
    """Empty if the real server said the same."""
    pod, errors, warnings = mine
    real = answer.json()
    if answer.status == 422:
        ours = invalid(GroupResource("", "Pod"), pod["metadata"]["name"], errors).body() if errors else {}
        return _first(_causes(real), _causes(ours))
    if errors:
        return f"accepted there, refused here: {errors[0]}"
    if answer.status not in (200, 201):
        return f"{answer.status} there: {real['message']}"
    there = [text.split(" ", 2)[2][1:-1] for name, text in answer.headers if name == "warning"]
    here = [warning.replace("\\", "\\\\").replace('"', '\\"') for warning in dict.fromkeys(warnings)]
    return _first(_shown(real), _shown(wire_form(SCHEMAS, TYPE, pod))) or _first(there, here)


def _causes(body: Object) -> list[str]:
    """In order, but for resource lists, which Go walks in any order.

    What follows a line break is a diff for people, in Go's spelling there and in JSON here. A list or map that was
    emptied is an absent one after our decoding, so it is shown as null.
    """
    texts = []
    for place, causes in itertools.groupby(body.get("details", {}).get("causes", []), _place):
        found = [json.dumps({**each, "message": each["message"].partition("\n")[0]}) for each in causes]
        texts += sorted(found) if place.endswith("resources") else found
    return [_EMPTIED.sub(r"\1null", text) for text in texts]


def _place(cause: Object) -> str:
    path: str = cause["field"]
    before, found, _ = path.partition("resources")
    return before + found


def _shown(pod: Object) -> list[str]:
    meta = {field: value for field, value in pod["metadata"].items() if field not in SERVERS_OWN}
    status = {**pod["status"], "conditions": [{**each, "lastTransitionTime": ""} for each in _conditions(pod)]}
    return json.dumps({"metadata": meta, "spec": pod["spec"], "status": status}, sort_keys=True, indent=1).splitlines()


def _conditions(pod: Object) -> list[Object]:
    found: list[Object] = pod["status"].get("conditions") or []
    return found


def _first(there: list[str], here: list[str]) -> str:
    for real, ours in itertools.zip_longest(there, here):
        if real != ours:
            return f"there {real!r}, here {ours!r}"
    return ""


def _compare(cases: Iterator[Case], ask: Callable[[Object], Answer], ours: Callable[[Object], Mine]) -> None:
    differences, compared = [], 0
    for label, make in cases:
        obj = make()
        answer = ask(obj)
        if answer.status == 400:
            continue  # refused by decoding, which has its own comparison
        compared += 1
        difference = _difference(answer, ours(obj))
        if difference:
            differences.append(f"{label}: {difference}")
    assert not differences, "\n".join(differences[:20])
    assert compared > 100


def _live(server: RealServer, name: str, **spec: Any) -> Object:
    pod = big_pod(name)
    pod["spec"].update(spec)
    answer = _send(server, "POST", PODS, pod)
    assert answer.status == 201, answer.body
    made: Object = answer.json()
    return made


def test_new_pods(server: RealServer) -> None:
    pod = big_pod("new")
    _compare(_some(pod, "metadata", "spec"), lambda obj: _send(server, "POST", f"{PODS}?dryRun=All", obj), _create)


@pytest.mark.parametrize("gates", [[], [{"name": "foo"}, {"name": "bar"}]], ids=["a free pod", "a gated pod"])
def test_changed_pods(server: RealServer, gates: list[Object]) -> None:
    live = _live(server, f"changed-{len(gates)}", schedulingGates=gates)
    path = f"{PODS}/{live['metadata']['name']}?dryRun=All"
    _compare(
        _some(live, "metadata", "spec"),
        lambda obj: _send(server, "PUT", path, obj),
        lambda obj: _update(obj, live, POD.update, is_pod=True),
    )


@pytest.mark.parametrize("subresource", ["resize", "ephemeralcontainers"])
def test_changes_of_a_part_of_the_spec(server: RealServer, subresource: str) -> None:
    live = _live(server, subresource)
    live["spec"]["ephemeralContainers"] = [{"name": "e", "image": "x", "targetContainerName": "c1"}]
    answer = _send(server, "PUT", f"{PODS}/{subresource}/ephemeralcontainers", live)
    assert answer.status == 200, answer.body
    live = answer.json()
    parts = {"resize": ("containers", "initContainers"), "ephemeralcontainers": ("ephemeralContainers", "containers")}
    cases = [
        (label, make)
        for label, make in mutations(live, "spec")
        if (label.split(".")[1].startswith(parts[subresource]) and "resources" in label) or "ephemeral" in label
    ]
    _compare(
        iter(cases),
        lambda obj: _send(server, "PUT", f"{PODS}/{subresource}/{subresource}?dryRun=All", obj),
        lambda obj: _update(obj, live, POD.subresources[subresource], is_pod=False),
    )


def test_changed_status(server: RealServer) -> None:
    live = _live(server, "status", schedulingGates=[], restartPolicy="OnFailure")
    live["status"].update(
        phase="Running",
        conditions=[{"type": "Ready", "status": "True", "observedGeneration": 1}, {"type": "a.b/c", "status": "False"}],
        hostIP="10.0.0.1",
        hostIPs=[{"ip": "10.0.0.1"}],
        podIPs=[{"ip": "10.1.0.1"}, {"ip": "fd00::1"}],
        observedGeneration=1,
        containerStatuses=[
            {"name": "c1", "state": {"terminated": {"exitCode": 0}}, "user": {"linux": {"uid": 1, "gid": 2}}},
            {"name": "c2", "state": {"terminated": {"exitCode": 42}}, "allocatedResources": {"cpu": "1"}},
        ],
        initContainerStatuses=[{"name": "side", "state": {"terminated": {"exitCode": 1}}}],
    )
    answer = _send(server, "PUT", f"{PODS}/status/status", live)
    assert answer.status == 200, answer.body
    live = answer.json()
    _compare(
        mutations(live, "metadata", "status"),
        lambda obj: _send(server, "PUT", f"{PODS}/status/status?dryRun=All", obj),
        lambda obj: _update(obj, live, POD.subresources["status"], is_pod=False),
    )
