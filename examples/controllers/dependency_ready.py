"""A gate controller in one file: pods wait for something outside the cluster, and no client polls for it.

A pod with the annotation ``example.com/depends-on: NAME`` gets the scheduling gate ``example.com/dependency-ready``
from the webhook of this program, and loses it when the ConfigMap NAME in its namespace has ``ready: "true"``. All other
gates of the pod belong to other controllers and stay. It works with any cluster whose API server can reach this
address:

    python dependency_ready.py --kubeconfig .headgate/kubeconfig

The webhook has ``failurePolicy: Ignore``: while this process is down, new pods are not gated, and gated pods wait. When
it starts again it lists all objects and continues. It keeps no state that the API does not have.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import ssl
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headgate.client.gate_lifting import GateLiftOutcome, GateLiftResult, lift
from headgate.client.gated_pods import GatedPod
from headgate.client.io.credentials import find_rest_config
from headgate.client.io.http_transport import HTTPTransport
from headgate.client.io.informer import Informer, InformerEvent, ObjectApplied, ObjectDeleted
from headgate.http.transport import HTTPRequest, Transport, Unreachable
from headgate.kube.scheduling_gates import gate_names

GATE = "example.com/dependency-ready"
DEPENDS_ON = "example.com/depends-on"
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
Object = dict[str, Any]
Key = tuple[str, str]


# -- decisions: no I/O -------------------------------------------------------------------------------------------------


def answer_review(review: Object) -> Object:
    """What the webhook says to an AdmissionReview: our gate is added once, behind those that are there."""
    request = review["request"]
    pod = request["object"]
    response: Object = {"uid": request["uid"], "allowed": True}
    if dependency_of(pod) and GATE not in gate_names(pod):
        added: Object = {"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": GATE}}
        if not gate_names(pod):
            added = {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(json.dumps([added]).encode()).decode()
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def dependency_of(pod: Object) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(DEPENDS_ON) or "")


class Waiting:
    """Which pods wait for which ConfigMap, and which ConfigMaps are ready. Events go in; the pods to lift the gate from
    come out."""

    def __init__(self) -> None:
        self._ready: set[Key] = set()
        self._waiting: dict[Key, dict[Key, GatedPod]] = {}
        self._waits_for: dict[Key, Key] = {}

    def pod(self, event: InformerEvent) -> list[GatedPod]:
        if isinstance(event, ObjectDeleted):
            self._forget((event.namespace, event.name))
        if not isinstance(event, ObjectApplied):
            return []
        wire = event.object
        metadata, gates = wire["metadata"], gate_names(wire)
        key: Key = (metadata["namespace"], metadata["name"])
        self._forget(key)
        if GATE not in gates:
            return []
        pod = GatedPod(*key, metadata["uid"], "", gates)
        needed: Key = (key[0], dependency_of(wire))
        self._waits_for[key] = needed
        self._waiting.setdefault(needed, {})[key] = pod
        return [pod] if needed in self._ready else []

    def config_map(self, event: InformerEvent) -> list[GatedPod]:
        if isinstance(event, ObjectDeleted):
            self._ready.discard((event.namespace, event.name))
        if not isinstance(event, ObjectApplied):
            return []
        metadata = event.object["metadata"]
        key: Key = (metadata["namespace"], metadata["name"])
        if (event.object.get("data") or {}).get("ready") != "true":
            self._ready.discard(key)
            return []
        self._ready.add(key)
        return list(self._waiting.get(key, {}).values())

    def _forget(self, key: Key) -> None:
        needed = self._waits_for.pop(key, None)
        if needed is not None:
            self._waiting[needed].pop(key, None)
            if not self._waiting[needed]:
                del self._waiting[needed]


def hook_configuration(url: str, authority: bytes) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "dependency-ready.example.com"},
        "webhooks": [
            {
                "name": "dependency-ready.example.com",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "namespaceSelector": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
                    ]
                },
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 3,
            }
        ],
    }


# -- performing them ---------------------------------------------------------------------------------------------------


async def control(transport: Transport) -> None:
    """Follows pods and ConfigMaps, and lifts gates, until it is cancelled."""
    waiting, work = Waiting(), asyncio.Queue[GatedPod]()

    def follow(path: str, decide: Callable[[InformerEvent], list[GatedPod]], *fields: str) -> Informer:
        def hear(event: InformerEvent) -> None:
            for pod in decide(event):
                work.put_nowait(pod)

        return Informer(
            transport,
            path,
            hear,
            jitter=random.random,
            sleep=asyncio.sleep,
            fields=fields,
            report=say,
        )

    async def lift_gates() -> None:
        while True:
            pod = await work.get()
            done = await lifted(transport, pod)
            say(f"{pod.key}: {done.outcome.value} {done.detail}".rstrip())
            if done.outcome is GateLiftOutcome.FAILED:  # no event will come of it: try again by ourselves
                asyncio.get_running_loop().call_later(10, work.put_nowait, pod)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow("/api/v1/configmaps", waiting.config_map, "data").run())
        tasks.create_task(follow("/api/v1/pods", waiting.pod, "metadata.annotations", "spec.schedulingGates").run())
        for _ in range(4):
            tasks.create_task(lift_gates())


async def lifted(transport: Transport, pod: GatedPod) -> GateLiftResult:
    steps = lift(GATE, pod)
    ask = next(steps)
    while True:
        await asyncio.sleep(ask.wait_s)
        try:
            answer = await transport.request(ask.request)
        except Unreachable:
            answer = None
        try:
            ask = steps.send(answer)
        except StopIteration as finished:
            result: GateLiftResult = finished.value
            return result


async def register(transport: Transport, configuration: Object) -> None:
    """Server-side apply: the same whether it is there or not."""
    path = f"{HOOKS}/{configuration['metadata']['name']}"
    headers = {"content-type": "application/apply-patch+yaml", "accept": "application/json"}
    query = "fieldManager=dependency-ready&force=true"
    answer = await transport.request(HTTPRequest("PATCH", path, query, headers, json.dumps(configuration).encode()))
    if not answer.ok:
        sys.exit(f"the webhook cannot be registered: {answer.body.decode(errors='replace')}")


class Hook(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = json.dumps(answer_review(body)).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing per request."""


def serve_hook(host: str) -> tuple[str, bytes]:
    """In a thread of its own; the address, and the certificate to trust."""
    certificate, key = own_certificate(host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(key + certificate)
        context.load_cert_chain(pair)
    server = ThreadingHTTPServer((host, 0), Hook)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"https://{host}:{server.server_port}/", certificate


def own_certificate(host: str) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dependency-ready")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), secret


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", default="", help="the cluster [default: as kubectl finds it]")
    parser.add_argument("--address", default="127.0.0.1", help="where the API server reaches the webhook")
    options = parser.parse_args()
    access = find_rest_config(options.kubeconfig)
    if isinstance(access, str):
        sys.exit(access)
    transport = HTTPTransport(access)
    try:
        await register(transport, hook_configuration(*serve_hook(options.address)))
        say("ready")
        await control(transport)
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(main())
