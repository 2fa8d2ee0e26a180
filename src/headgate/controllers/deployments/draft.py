"""A Deployment as it will be written: its status and its revision annotation, changed during one reconcile.

It starts as the stored object; it is written only if something differs at the end.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.deployments import progress
from headgate.kube.conditions import Condition

Object = dict[str, Any]


class DeploymentDraft:
    def __init__(self, owner: Object, now_s: float) -> None:
        metadata, stored = owner["metadata"], owner.get("status") or {}
        self.owner: Final = owner
        self.now_s: Final = now_s
        self.uid: Final[str] = metadata["uid"]
        self.namespace: Final[str] = metadata["namespace"]
        self.key: Final[tuple[str, str]] = (metadata["namespace"], metadata["name"])
        self.conditions: list[Condition] = stored.get("conditions") or []
        self.collisions: int | None = stored.get("collisionCount")
        self.counts: Object = {name: value for name, value in stored.items() if name != "conditions"}
        self.is_resized = False
        """Whether the size or the annotations of a ReplicaSet were changed."""
        self._annotations: dict[str, str] = metadata.get("annotations") or {}

    def annotate(self, name: str, value: str) -> None:
        if self._annotations.get(name, "") != value:
            self._annotations = {**self._annotations, name: value}

    def set_status(self, status: str, reason: str, message: str) -> None:
        """Sets the Progressing condition."""
        condition = progress.condition(progress.PROGRESSING, status, reason, message, self.now_s)
        self.conditions = progress.with_condition(self.conditions, condition)

    @property
    def status(self) -> Object:
        counted = self.counts if self.collisions is None else {**self.counts, "collisionCount": self.collisions}
        return {**counted, "conditions": self.conditions} if self.conditions else counted

    @property
    def is_changed(self) -> bool:
        stored = self.owner["metadata"].get("annotations") or {}
        return self._annotations != stored or self.status != (self.owner.get("status") or {})

    @property
    def obj(self) -> Object:
        metadata = {**self.owner["metadata"], "annotations": self._annotations}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            **self.owner,
            "metadata": metadata,
            "status": self.status,
        }
