"""`headgate gates` on both servers at once: what it prints, what it changes, what it leaves alone."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from typing import Any

import pytest

from harness.embedded_server import HEADGATE
from harness.server import JSON_TYPE, Server
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

MINE, OTHER = "example.com/mine", "example.com/other"
NAMESPACE = "gates-command"
AGE = re.compile(r"\b\d+s\b")


def gates(server: Server, *arguments: str) -> tuple[int, str, str]:
    run = subprocess.run(
        [str(HEADGATE), "gates", *arguments, "--kubeconfig", str(server.kubeconfig)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return run.returncode, AGE.sub("<age>", run.stdout), run.stderr


def create(server: Server, namespace: str, name: str, *names: str) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}},
        "spec": {
            "schedulingGates": [{"name": each} for each in names],
            "containers": [{"name": "c", "image": "i"}],
        },
    }
    path = f"/api/v1/namespaces/{namespace}/pods?fieldManager=the-creator"
    answer = server.request("POST", path, JSON_TYPE, json.dumps(pod).encode())
    assert answer.status == 201, answer.body


def namespaced(server: Server, name: str) -> str:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    answer = server.request("POST", "/api/v1/namespaces", JSON_TYPE, json.dumps(body).encode())
    assert answer.status == 201, answer.body
    return name


def gates_of(server: Server, namespace: str) -> dict[str, list[str]]:
    pods: Any = server.request("GET", f"/api/v1/namespaces/{namespace}/pods").json()["items"]
    return {pod["metadata"]["name"]: [each["name"] for each in pod["spec"].get("schedulingGates", ())] for pod in pods}


def agree(servers: ServerPair, scenario: Any) -> Any:
    real, ours = servers.on_each(scenario)
    assert real == ours
    return real


def test_gates_are_listed_with_their_owner(servers: ServerPair) -> None:
    def scenario(server: Server) -> Any:
        namespace = namespaced(server, f"{NAMESPACE}-list")
        create(server, namespace, "a", MINE, OTHER)
        create(server, namespace, "b", OTHER)
        create(server, namespace, "free")
        return gates(server, "list", "-n", namespace), gates(server, "list", "-n", namespace, "-l", "app=nobody")

    listed, nobody = agree(servers, scenario)
    assert listed[0] == 0
    head, mine, other = (line.split() for line in listed[1].splitlines())
    assert head == ["GATE", "PODS", "OLDEST", "AGE", "SET", "BY"]
    assert mine == [MINE, "1", f"{NAMESPACE}-list/a", "<age>", "the-creator"]
    assert other[:2] == [OTHER, "2"]
    assert nobody == (0, "", "No pod has a scheduling gate.\n")


def test_one_gate_is_lifted_and_the_others_stay(servers: ServerPair) -> None:
    def scenario(server: Server) -> Any:
        namespace = namespaced(server, f"{NAMESPACE}-lift")
        for i in range(20):
            create(server, namespace, f"p{i}", OTHER, MINE)
        create(server, namespace, "q", OTHER)
        dry = gates(server, "lift", MINE, "--all", "-n", namespace, "--dry-run")
        untouched = gates_of(server, namespace)
        done = gates(server, "lift", MINE, "-l", "app=x", "-n", namespace)
        again = gates(server, "lift", MINE, "--all", "-n", namespace)
        return dry, untouched, done, gates_of(server, namespace), again

    dry, untouched, done, left, again = agree(servers, scenario)
    assert dry == (0, f"{MINE}: would be lifted from 20 of 20 pods, 0 already gone, 0 failed\n", "")
    assert untouched["p0"] == [OTHER, MINE]
    assert done == (0, f"{MINE}: lifted from 20 of 20 pods, 0 already gone, 0 failed\n", "")
    assert all(each == [OTHER] for each in left.values())
    assert again[1] == f"{MINE}: lifted from 0 of 0 pods, 0 already gone, 0 failed\n"


def test_two_that_lift_at_once_lift_each_gate_once(servers: ServerPair) -> None:
    """Between them they account for every pod: lifted by one is already gone for the other, or was never seen."""

    def scenario(server: Server) -> Any:
        namespace = namespaced(server, f"{NAMESPACE}-twice")
        for i in range(40):
            create(server, namespace, f"p{i}", MINE)
        printed: list[tuple[int, str, str]] = []
        workers = [
            threading.Thread(target=lambda: printed.append(gates(server, "lift", MINE, "--all", "-n", namespace)))
            for _ in range(2)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        lifted = sum(int(re.findall(r"from (\d+) of", each[1])[0]) for each in printed)
        assert [each[0] for each in printed] == [0, 0], [each[2] for each in printed]
        return lifted, gates_of(server, namespace) == {f"p{i}": [] for i in range(40)}

    assert agree(servers, scenario) == (40, True)


def test_a_user_without_the_right_gets_the_servers_error_for_every_pod(servers: ServerPair) -> None:
    def scenario(server: Server) -> Any:
        namespace = namespaced(server, f"{NAMESPACE}-deny")
        hook = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": f"{NAMESPACE}-deny"},
            "webhooks": [
                {
                    "name": "deny.example.com",
                    "clientConfig": {"url": "https://127.0.0.1:9/never"},
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
                    ],
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                }
            ],
        }
        hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        create(server, namespace, "a", MINE)
        create(server, namespace, "b", MINE)
        assert server.request("POST", hooks, JSON_TYPE, json.dumps(hook).encode()).status == 201
        try:
            code, out, err = gates(server, "lift", MINE, "--all", "-n", namespace)
            while code == 0:  # a real server may need a moment to hear of the webhook
                create(server, namespace, f"c{len(gates_of(server, namespace))}", MINE)
                code, out, err = gates(server, "lift", MINE, "--all", "-n", namespace)
        finally:
            server.request("DELETE", f"{hooks}/{NAMESPACE}-deny")
        return code, out.endswith(" failed\n"), "deny.example.com" in err

    assert agree(servers, scenario) == (1, True, True)


def test_an_unreachable_server_is_reported_in_one_line(servers: ServerPair, tmp_path: Any) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(servers.ours.kubeconfig.read_text().replace(servers.ours.address, "127.0.0.1:9"))
    run = subprocess.run(
        [str(HEADGATE), "gates", "list", "--kubeconfig", str(kubeconfig)], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr.count("\n")) == (1, 1)
    assert "127.0.0.1:9" in run.stderr
