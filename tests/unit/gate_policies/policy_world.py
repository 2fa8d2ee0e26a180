"""GatePolicies on the embedded API server without sockets and clock: its admission, and the controller."""

from __future__ import annotations

from typing import Any

from embedded import TOKEN, Embedded, Reply, a_pod
from headgate.admission.settings import AdmissionSettings
from headgate.apiserver.authn.user import MASTERS, UserInfo
from headgate.cli.embedded.admission import own_admission
from headgate.gate_policies.controller import GatePolicyController
from headgate.gate_policies.definitions import DEFINITION
from headgate.gate_policies.metrics import GatePolicyMetrics
from headgate.gate_policies.names import WORKLOAD_CONTROLLERS
from headgate.kube.feature_gates import FeatureGates
from headgate.store import Store
from unit.controllers.world import World
from unit.gate_policies.policies import GATE

Object = dict[str, Any]

POLICIES = "/apis/headgate.dev/v1alpha1/gatepolicies"
PODS = "/api/v1/namespaces/t/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
USERS = {
    "alice": UserInfo("alice", (MASTERS,)),
    "bob": UserInfo("bob", ("team", MASTERS)),
    "robot": UserInfo("system:serviceaccount:team:robot", (MASTERS,)),
    "headgate": UserInfo("headgate", (MASTERS,)),
    "job-controller": UserInfo("system:serviceaccount:kube-system:job-controller", (MASTERS,)),
}
"""By token. All of them may do everything by RBAC, so only policies refuse."""


def a_server(store: Store | None = None, *, is_on: bool = True) -> Embedded:
    """``store``: of an earlier server, for a restart."""
    is_new = store is None
    store = Store() if store is None else store
    settings = AdmissionSettings(
        schedulers=frozenset({"headgate"}),
        trusted_users=frozenset({"headgate", "admin"}),
        features=FeatureGates(gate_ownership=is_on),
        workload_controllers=WORKLOAD_CONTROLLERS,
    )
    server = Embedded(store=store, guests=own_admission(settings, store), users=USERS, namespace="t" if is_new else "")
    if is_new:
        assert server.post(DEFINITIONS, DEFINITION).status == 201
    return server


def as_user(server: Embedded, user: str, method: str, path: str, body: Any = None, **more: Any) -> Reply:
    return server.call(method, path, body, authorization=f"Bearer {user}", **more)


def create_policy(server: Embedded, name: str, *gates: str, **spec: Any) -> Object:
    body = {"apiVersion": "headgate.dev/v1alpha1", "kind": "GatePolicy", "metadata": {"name": name}}
    made = server.post(POLICIES, {**body, "spec": {"gates": list(gates or (GATE,)), **spec}})
    assert made.status == 201, made.body
    found: Object = made.body
    return found


def gated(name: str, *gates: str) -> Object:
    return a_pod(name, schedulingGates=[{"name": each} for each in gates or (GATE,)])


def create_pod(server: Embedded, name: str, *gates: str, user: str = TOKEN) -> Reply:
    return as_user(server, user, "POST", PODS, gated(name, *gates))


def lift(server: Embedded, name: str, user: str, **more: Any) -> Reply:
    body = {"spec": {"schedulingGates": None}}
    return as_user(server, user, "PATCH", f"{PODS}/{name}", body, content_type="application/merge-patch+json", **more)


def a_world(server: Embedded | None = None) -> tuple[World, GatePolicyMetrics]:
    metrics = GatePolicyMetrics()
    return World(lambda: GatePolicyController(metrics), server=server or a_server()), metrics


def conditions_of(world: World, name: str = "p") -> dict[str, tuple[str, str]]:
    """Status and reason, by type."""
    found = world.server.get(f"{POLICIES}/{name}").body
    return {
        each["type"]: (each["status"], each["reason"]) for each in (found.get("status") or {}).get("conditions") or ()
    }


def message_of(world: World, name: str, type_: str) -> str:
    found = world.server.get(f"{POLICIES}/{name}").body["status"]["conditions"]
    return next(str(each["message"]) for each in found if each["type"] == type_)
