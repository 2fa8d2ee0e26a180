"""Which gates hold which pods: a list of pods, read page by page and only as far as needed; and who set a gate.

Who set a gate is written in a pod's managed fields, which are most of a pod's bytes: they are asked for one pod per
gate, when somebody wants to know. A webhook that adds a gate does so in the name of whoever creates the pod.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.outcome import message_of
from headgate.client.transport import Request, Response, encode_query

_PAGE: Final = "500"
_GONE: Final = 410
_ACCEPT: Final = {"accept": "application/json"}
_decode_message: Final = msgspec.json.Decoder(dict[str, Any])


class Gate(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    schedulingGates: list[Gate] = []


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creationTimestamp: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()


class _ListMetadata(msgspec.Struct, rename={"token": "continue"}, frozen=True):
    token: str = ""


class _PodList(msgspec.Struct, frozen=True):
    metadata: _ListMetadata = _ListMetadata()
    items: list[_Pod] = []


_decode_page: Final = msgspec.json.Decoder(_PodList)


class GatedPod(msgspec.Struct, frozen=True):
    """``created`` is a wire timestamp: they sort as text."""

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


class Refused(msgspec.Struct, frozen=True):
    """The server said no, or something that makes no sense."""

    text: str


class Tally(msgspec.Struct, frozen=True):
    """A gate, how many pods it holds, and the oldest of them."""

    gate: str
    pods: int
    oldest: GatedPod


Asking = Generator[Request, Response, Any]


def gated_pods(namespace: str, selector: str) -> Generator[Request, Response, list[GatedPod] | Refused]:
    """All pods that have a gate; in all namespaces if none is named."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    chosen = {"labelSelector": selector} if selector else {}
    found: list[GatedPod] = []
    query = {**chosen, "limit": _PAGE}
    while True:
        answer = yield Request("GET", path, encode_query(query), _ACCEPT)
        if answer.status == _GONE and "continue" in query:  # the list took too long: once more, in one piece
            found, query = [], dict(chosen)
            continue
        if not answer.ok:
            return Refused(what_it_said(answer))
        try:
            page = _decode_page.decode(answer.body)
        except msgspec.DecodeError as error:
            return Refused(f"{path} sent what is not a list of pods: {error}")
        found += [pod for pod in map(_read, page.items) if pod.gates]
        if not page.metadata.token:
            return found
        query = {**chosen, "limit": _PAGE, "continue": page.metadata.token}


def _read(pod: _Pod) -> GatedPod:
    meta = pod.metadata
    gates = tuple(gate.name for gate in pod.spec.schedulingGates)
    return GatedPod(meta.namespace, meta.name, meta.uid, meta.creationTimestamp, gates)


def tallies(pods: Iterable[GatedPod]) -> list[Tally]:
    """By gate, in the order of their names."""
    by_gate: dict[str, list[GatedPod]] = {}
    for pod in pods:
        for gate in pod.gates:
            by_gate.setdefault(gate, []).append(pod)
    return [
        Tally(gate, len(held), min(held, key=lambda pod: (pod.created, pod.namespace, pod.name)))
        for gate, held in sorted(by_gate.items())
    ]


def setter_of(gate: str, pod: GatedPod) -> Generator[Request, Response, str]:
    """The manager whose field the gate is; empty if that cannot be told any more."""
    answer = yield Request("GET", pod.path, "", _ACCEPT)
    if not answer.ok:
        return ""
    try:
        metadata: Mapping[str, Any] = _decode_message.decode(answer.body).get("metadata") or {}
        if metadata.get("uid") != pod.uid:
            return ""
        item = 'k:{"name":' + msgspec.json.encode(gate).decode() + "}"
        for entry in metadata.get("managedFields") or ():
            fields = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:schedulingGates") or {}
            if item in fields:
                return str(entry.get("manager") or "")
    except (msgspec.DecodeError, AttributeError, TypeError):
        return ""
    return ""


def what_it_said(answer: Response) -> str:
    return f"the server answered {answer.status}: {message_of(answer)}"
