"""`headgate doctor` and `headgate history` on the embedded server and on a real one, with objects that kubectl made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.headgate_cli import output_lines
from harness.queues import a_queue, install_crds
from harness.server import Server
from harness.server_kinds import SERVER_KINDS, running_server
from harness.users import ALICE

pytestmark = pytest.mark.real

Object = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"


def made(version: str, kind: str, name: str, spec: Object | None = None, **metadata: Any) -> Object:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}}
    return body if spec is None else {**body, "spec": spec}


RULE = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
WEBHOOK = {
    **made("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "lost"),
    "webhooks": [
        {
            "name": "lost.example.com",
            "clientConfig": {"service": {"namespace": "default", "name": "lost"}},
            "rules": [
                {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["x"]}
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}
LEASE = made(
    "coordination.k8s.io/v1",
    "Lease",
    "headgate-scheduler",
    {"holderIdentity": "gone_1", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    namespace="kube-system",
)
IN_QUEUE = {"scheduling.volcano.sh/queue-name": "absent", "scheduling.volcano.sh/queue-allocation-gate": "true"}
POD = {
    "schedulerName": "headgate",
    "containers": [{"name": "c", "image": "i"}],
    "schedulingGates": [{"name": "scheduling.volcano.sh/queue-allocation-gate"}],
}
MADE = (
    a_queue("eng", capability={"cpu": "4"}),
    made(KUEUE, "LocalQueue", "lost", {"clusterQueue": "nowhere"}, namespace="default"),
    made("v1", "Pod", "waits", POD, namespace="default", annotations=IN_QUEUE),
    WEBHOOK,
    LEASE,
)


@pytest.fixture(scope="module", params=SERVER_KINDS)
def server(
    request: pytest.FixtureRequest, kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with running_server(request.param, tmp_path_factory.mktemp(request.param), kube_binaries) as running:
        install_crds(running)
        code, text, complaint = output_lines(running, "doctor")
        assert (code, text.partition(":")[0]) == (0, "nothing is wrong"), (text, complaint)
        created = running.kubectl(["create", "-f", "-"], yaml.safe_dump_all(MADE))
        assert created.exit == 0, created.stderr
        yield running


def test_everything_that_is_wrong_is_found_with_a_fix(server: Server) -> None:
    code, text, _ = output_lines(server, "doctor", "-o", "json")
    document = json.loads(text)
    assert (code, document["ok"]) == (1, False)
    found = {(each["check"], each["subject"]): each for each in document["findings"]}
    assert set(found) - {("clocks", "apiserver")} == {
        ("leases", "kube-system/lease/headgate-scheduler"),
        ("queues", "queue/absent"),
        ("quota", "default/localqueue/lost"),
        ("webhooks", "validatingwebhookconfiguration/lost"),
    }
    assert all(each["fix"] for each in found.values())
    assert "its Service default/lost does not exist" in json.dumps(document)
    code, text, _ = output_lines(server, "doctor")
    assert (code, text.splitlines()[0].split()[0]) == (1, "ERROR")
    assert "kubectl delete validatingwebhookconfiguration lost" in text


def test_a_user_without_rights_is_told_which(server: Server, tmp_path: Path) -> None:
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": ALICE}
    theirs = tmp_path / "kubeconfig"
    theirs.write_text(yaml.safe_dump(config))
    code, text, _ = output_lines(server, "doctor", "-o", "json", kubeconfig=theirs)
    found = json.loads(text)["findings"]
    assert (code, {each["check"] for each in found}) == (1, {"rights"})
    assert any("missing right: list pods in all namespaces" in each["text"] for each in found)
    code, _, complaint = output_lines(server, "history", "pod", "waits", kubeconfig=theirs)
    assert (code, "missing right: get pods in namespace default" in complaint) == (1, True)


def test_a_history_has_times_sources_and_gaps(server: Server) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "waits.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "waits", "uid": uid(server)},
        "reason": "Tested",
        "message": "by a test",
        "source": {"component": "tester"},
        "firstTimestamp": "2030-01-01T00:00:00Z",
        "lastTimestamp": "2030-01-01T00:00:00Z",
        "count": 1,
    }
    assert server.kubectl(["create", "-f", "-"], yaml.safe_dump(event)).exit == 0
    document = json.loads(output_lines(server, "history", "pod", "waits", "-o", "json")[1])
    entries = [(each["source"], each["text"]) for each in document["entries"]]
    assert entries[0] == ("metadata", "created")
    assert entries[-1] == ("Event of tester", "Tested: by a test")
    assert any(source == "managedFields" for source, _ in entries)
    assert any(source == "condition" and "PodScheduled became False" in text for source, text in entries)
    assert document["unknown"]
    lines = output_lines(server, "history", "po/waits")[1].splitlines()
    assert lines[1].split() == ["TIME", "AGO", "SOURCE", "WHAT"]
    assert "not known" in lines


def test_what_does_not_exist_is_said(server: Server) -> None:
    code, _, complaint = output_lines(server, "history", "pod", "absent")
    assert (code, "there is no pod absent in namespace default, and no Event names it" in complaint) == (1, True)
    code, _, complaint = output_lines(server, "history", "clusterqueu", "x")
    assert (code, "Did you mean 'clusterqueue'?" in complaint) == (2, True)


def uid(server: Server) -> str:
    return server.kubectl(["get", "pod", "waits", "-n", "default", "-o", "jsonpath={.metadata.uid}"]).stdout
