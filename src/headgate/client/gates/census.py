"""Which gates hold which pods: a list of pods, read page by page and only as far as needed; and who set a gate.

Who set a gate (``setters.py``) is asked for one pod per gate, when somebody wants to know.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.client.gates.setters import find_setter
from headgate.client.listing import ACCEPT, Page, Refused, list_all, what_it_said
from headgate.client.rights import NOT_FOUND, refusal_text
from headgate.client.transport import Request, Response
from headgate.kube import wire_json
from headgate.kube.resource import PODS

_decode_message: Final = wire_json.Decoder(dict[str, Any])


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


_decode_page: Final = wire_json.Decoder(Page[_Pod])


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


class Tally(msgspec.Struct, frozen=True):
    """A gate, how many pods it holds, and the oldest of them."""

    gate: str
    pods: int
    oldest: GatedPod


def gated_pods(namespace: str, selector: str) -> Generator[Request, Response, list[GatedPod] | Refused]:
    """All pods that have a gate; in all namespaces if none is named. A refusal names the right that is missing."""
    where = namespace or None
    found = yield from list_all(PODS.collection(where), _gated, {"labelSelector": selector} if selector else {})
    if isinstance(found, Refused):
        return Refused(refusal_text("list", PODS, where, found), found.status)
    return found.items


def _gated(body: bytes) -> Page[GatedPod]:
    page = _decode_page.decode(body)
    return Page(page.metadata, [pod for pod in map(_read, page.items) if pod.gates])


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


def setter_of(gate: str, pod: GatedPod) -> Generator[Request, Response, str | Refused]:
    """The manager whose field the gate is; empty if that cannot be told any more."""
    answer = yield Request("GET", pod.path, "", ACCEPT)
    if answer.status == NOT_FOUND:
        return ""
    if not answer.ok:
        refused = Refused(what_it_said(answer), answer.status)
        return Refused(refusal_text("get", PODS, pod.namespace, refused), answer.status)
    try:
        metadata: Mapping[str, Any] = _decode_message.decode(answer.body).get("metadata") or {}
    except msgspec.DecodeError:
        return ""
    return find_setter(metadata, gate).manager if metadata.get("uid") == pod.uid else ""
