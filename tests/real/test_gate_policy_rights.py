"""The rights of GatePolicies on a real API server: nothing is refused to the service account, every right is used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import rights
from harness.rights import AuditedServer
from harness.scheduler_process import send, wait_for
from harness.webhooks import WebhookProcess
from headgate.install.manifests import install_objects, needed_definitions
from headgate.install.options import GatePolicyOptions, InstallOptions
from headgate.install.rights import GATE_POLICY_RULES, atoms
from rights_cases import INSTALL, WEBHOOKS

pytestmark = pytest.mark.real

PODS = "/api/v1/namespaces/default/pods"
POLICIES = "/apis/headgate.dev/v1alpha1/gatepolicies"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
OPTIONS = InstallOptions(gate_policies=GatePolicyOptions(enabled=True))


@dataclass
class ServiceAccount:
    kubeconfig: Path


@pytest.fixture
def server(kube_binaries: Path, tmp_path: Path) -> Iterator[AuditedServer]:
    made = AuditedServer(tmp_path / "server", kube_binaries)
    try:
        done = rights.headgate(made.configured(INSTALL, tmp_path), ["install-crds"])
        assert done.returncode == 0, done.stderr
        objects = [
            *(each for each in needed_definitions(OPTIONS) if each["spec"]["group"] == "headgate.dev"),
            *(
                each
                for each in install_objects(OPTIONS, "headgate-system")
                if each["metadata"]["name"] in ("headgate-component-gate-policies", "headgate-gate-policy-viewer")
            ),
        ]
        file = tmp_path / "policies.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        made.typed("apply", "-f", str(file))
        # Established does not suffice: the server learns of it by a watch, and fills its cache of the new kind.
        wait_for(lambda: made.request("GET", POLICIES).status == 200)
        yield made
    finally:
        made.disconnect()
        made.stop()


def a_policy(name: str, **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "headgate.dev/v1alpha1", "kind": "GatePolicy", "metadata": {"name": name}}
    return {**body, "spec": {"gates": [f"example.com/{name}"], **spec}}


def a_pod(gate: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    return {
        "metadata": {"name": gate},
        "spec": {"containers": containers, "schedulingGates": [{"name": f"example.com/{gate}"}]},
    }


def test_nothing_is_refused_and_every_right_is_used(server: AuditedServer, tmp_path: Path) -> None:
    account = ServiceAccount(server.configured(WEBHOOKS, tmp_path))
    process = WebhookProcess(account, tmp_path / "run.log", "--feature-gates", "GateOwnership=true")
    try:
        lease = {"holderIdentity": "x", "leaseDurationSeconds": 2, "renewTime": "2023-01-01T00:00:00.000000Z"}
        send(server, "POST", LEASES, {"metadata": {"name": "owner"}, "spec": lease})
        send(server, "POST", POLICIES, a_policy("lift", maxAge="1s", onMaxAge="Lift", liftedBy=[], maxPods=5))
        send(server, "POST", POLICIES, a_policy("delete", maxAge="1s", onMaxAge="Delete"))
        send(server, "POST", POLICIES, a_policy("owned", ownerLease={"namespace": "default", "name": "owner"}))
        for gate in ("lift", "delete"):
            send(server, "POST", PODS, a_pod(gate))
        wait_for(lambda: not send(server, "GET", f"{PODS}/lift")["spec"].get("schedulingGates"), process)
        wait_for(lambda: server.request("GET", f"{PODS}/delete").status == 404, process)

        def reasons(name: str) -> list[str]:
            found = (send(server, "GET", f"{POLICIES}/{name}").get("status") or {}).get("conditions") or ()
            return [each["reason"] for each in found]

        wait_for(lambda: "LeaseExpired" in reasons("owned"), process)
        events = "/api/v1/namespaces/default/events?fieldSelector=reason=OverdueGateLifted"
        wait_for(lambda: send(server, "GET", events)["items"], process)
    finally:
        process.stop()
    assert server.refusals(WEBHOOKS) == []
    used = server.used_rights(WEBHOOKS)
    granted = {(group, resource, name, verb) for _, group, resource, name, verb in atoms(GATE_POLICY_RULES)}
    assert granted - used <= {("", "events", "", "patch")}, "an Event is patched only if it is repeated"


def test_the_list_of_gates_names_a_missing_right_and_works_with_it(server: AuditedServer, tmp_path: Path) -> None:
    send(server, "POST", POLICIES, a_policy("owned", liftedBy=[{"kind": "User", "name": "root"}]))
    send(server, "POST", PODS, a_pod("owned"))
    server.typed("create", "serviceaccount", "lister")
    server.typed("create", "clusterrole", "list-pods", "--verb=get,list", "--resource=pods")
    bound = "--serviceaccount=default:lister"
    server.typed("create", "clusterrolebinding", "lister", "--clusterrole=list-pods", bound)
    kubeconfig = server.configured("default/lister", tmp_path)
    wait_for(lambda: "owned" in rights.headgate(kubeconfig, ["gates", "list", "-A"]).stdout)
    listed = rights.headgate(kubeconfig, ["gates", "list", "-A"])
    assert listed.stdout.splitlines()[-1].split()[-2:] == ["?", "?"]
    assert "missing right: list gatepolicies" in listed.stderr
    server.typed("create", "clusterrolebinding", "viewer", "--clusterrole=headgate-gate-policy-viewer", bound)
    wait_for(lambda: "user root (owned)" in rights.headgate(kubeconfig, ["gates", "list", "-A"]).stdout)
