"""Reads the ReplicaSets of a Deployment: sizes, counts and annotations.

The size is the requested one (``replicas``); the counts are what the ReplicaSet controller last reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from headgate.kube.integers import read_natural
from headgate.kube.labels import parse_int64

Object = dict[str, Any]

REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

_MAX_INT32: Final = 2**31 - 1


class ReplicaSet(msgspec.Struct, frozen=True):
    name: str
    uid: str
    created: str
    """A timestamp as in the API, whose text order is its time order."""
    is_terminating: bool
    generation: int
    observed_generation: int
    replicas: int
    """The requested size."""
    status_replicas: int
    """How many pods it has, as its controller last reported in ``status.replicas``."""
    ready: int
    available: int
    terminating: int | None
    """The number of terminating pods; None if its controller has not reported it."""
    desired_annotation: int | None
    """The replica count of the Deployment when this ReplicaSet was last scaled."""
    max_replicas_annotation: int | None
    """The maximum number of pods of the Deployment, with surge, when this ReplicaSet was last scaled."""
    revision: int | None
    """The number in the revision annotation; zero without the annotation, None if it is not a number."""
    obj: Object

    @property
    def age(self) -> tuple[str, str]:
        return self.created, self.name


def read(obj: Object) -> ReplicaSet:
    metadata, status = obj["metadata"], obj.get("status") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    replicas = (obj.get("spec") or {}).get("replicas")
    return ReplicaSet(
        name=metadata["name"],
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp") or "",
        is_terminating="deletionTimestamp" in metadata,
        generation=metadata.get("generation", 0),
        observed_generation=status.get("observedGeneration", 0),
        replicas=1 if replicas is None else replicas,
        status_replicas=status.get("replicas", 0),
        ready=status.get("readyReplicas", 0),
        available=status.get("availableReplicas", 0),
        terminating=status.get("terminatingReplicas"),
        desired_annotation=_size(annotations.get(DESIRED_REPLICAS)),
        max_replicas_annotation=_size(annotations.get(MAX_REPLICAS)),
        revision=revision_of(annotations),
        obj=obj,
    )


def revision_of(annotations: Mapping[str, str]) -> int | None:
    text = annotations.get(REVISION)
    return 0 if text is None else parse_int64(text)


def active(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """ReplicaSets with a requested size above zero."""
    return [each for each in sets if each.replicas > 0]


def total_spec_replicas(sets: Iterable[ReplicaSet]) -> int:
    return sum(each.replicas for each in sets)


def oldest_first(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    return sorted(sets, key=lambda each: each.age)


def _size(text: str | None) -> int | None:
    number = None if text is None else read_natural(text)
    return number if number is not None and number <= _MAX_INT32 else None
