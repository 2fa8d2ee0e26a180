"""Which pods have which scheduling gates, and which field manager set a gate.

The list of pods is read page by page, and only the needed fields are decoded. The manager of a gate is read from the
managed fields of one pod per gate, and only on request, because managed fields are most of a pod's bytes. A gate that a
webhook adds has the client that creates the pod as its field manager. ``client/gate_lifting.py`` removes a gate.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.pager import ACCEPT, ListRefused, ListResponse, list_all, refusal_message
from headgate.client.permissions import NOT_FOUND, refusal_text
from headgate.http.transport import HTTPRequest, HTTPResponse
from headgate.kube.api_resources import PODS
from headgate.kube.serializer import wire_json


class GateSetter(msgspec.Struct, frozen=True):
    """The field manager that set a gate. ``time``: when this manager last wrote any of its fields, as in the API."""

    manager: str = ""
    time: str = ""


def find_setter(metadata: Mapping[str, Any], gate: str) -> GateSetter:
    """The field manager that owns the gate; empty if none is recorded."""
    item = 'k:{"name":' + msgspec.json.encode(gate).decode() + "}"
    try:
        for entry in metadata.get("managedFields") or ():
            fields = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:schedulingGates") or {}
            if item in fields:
                return GateSetter(str(entry.get("manager") or ""), str(entry.get("time") or ""))
    except (AttributeError, TypeError):
        return GateSetter()
    return GateSetter()


_decode_message: Final = wire_json.WireDecoder(dict[str, Any])


class PodSchedulingGate(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    schedulingGates: list[PodSchedulingGate] = []


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creationTimestamp: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


_decode_page: Final = wire_json.WireDecoder(ListResponse[_Pod])


class GatedPod(msgspec.Struct, frozen=True):
    """``created`` is a wire timestamp, which sorts as text."""

    namespace: str
    name: str
    uid: str
    created: str
    gates: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class GateCount(msgspec.Struct, frozen=True):
    """A gate, how many pods it holds, and the oldest of them."""

    gate: str
    pods: int
    oldest: GatedPod


def gated_pods(namespace: str, selector: str) -> Generator[HTTPRequest, HTTPResponse, list[GatedPod] | ListRefused]:
    """All pods that have a gate; an empty namespace means all namespaces. A refusal names the missing permission."""
    scope = namespace or None
    found = yield from list_all(
        PODS.collection_path(scope), _read_page, {"labelSelector": selector} if selector else {}
    )
    if isinstance(found, ListRefused):
        return ListRefused(refusal_text("list", PODS, scope, found), found.status)
    return found.items


def _read_page(body: bytes) -> ListResponse[GatedPod]:
    page = _decode_page.decode(body)
    return ListResponse(page.metadata, [pod for pod in map(_read, page.items) if pod.gates])


def _read(pod: _Pod) -> GatedPod:
    meta = pod.metadata
    gates = tuple(gate.name for gate in pod.spec.schedulingGates)
    return GatedPod(meta.namespace, meta.name, meta.uid, meta.creationTimestamp, gates)


def count_gates(pods: Iterable[GatedPod]) -> list[GateCount]:
    """One entry for each gate, sorted by name."""
    by_gate: dict[str, list[GatedPod]] = {}
    for pod in pods:
        for gate in pod.gates:
            by_gate.setdefault(gate, []).append(pod)
    return [
        GateCount(gate, len(pods_of_gate), min(pods_of_gate, key=lambda pod: (pod.created, pod.namespace, pod.name)))
        for gate, pods_of_gate in sorted(by_gate.items())
    ]


def setter_of(gate: str, pod: GatedPod) -> Generator[HTTPRequest, HTTPResponse, str | ListRefused]:
    """The field manager that owns the gate; empty if none is recorded."""
    response = yield HTTPRequest("GET", pod.path, "", ACCEPT)
    if response.status == NOT_FOUND:
        return ""
    if not response.ok:
        refused = ListRefused(refusal_message(response), response.status)
        return ListRefused(refusal_text("get", PODS, pod.namespace, refused), response.status)
    try:
        metadata: Mapping[str, Any] = _decode_message.decode(response.body).get("metadata") or {}
    except msgspec.DecodeError:
        return ""
    return find_setter(metadata, gate).manager if metadata.get("uid") == pod.uid else ""
