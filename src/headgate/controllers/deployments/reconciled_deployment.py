"""A Deployment during one reconcile: the steps change its status and its revision annotation in memory.

At the end it is written to the API server if it differs from the stored object.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.deployments import progress
from headgate.kube.conditions import Condition

Object = dict[str, Any]


class ReconciledDeployment:
    """``stored``: the Deployment as it was read at the start of the reconcile."""

    def __init__(self, stored: Object, now_s: float) -> None:
        metadata, status = stored["metadata"], stored.get("status") or {}
        self.stored: Final = stored
        self.now_s: Final = now_s
        self.uid: Final[str] = metadata["uid"]
        self.namespace: Final[str] = metadata["namespace"]
        self.key: Final[tuple[str, str]] = (metadata["namespace"], metadata["name"])
        self.conditions: list[Condition] = status.get("conditions") or []
        self.collisions: int | None = status.get("collisionCount")
        self.counts: Object = {name: value for name, value in status.items() if name != "conditions"}
        self.is_resized = False
        """Whether this reconcile changed the size or the annotations of a ReplicaSet."""
        self._annotations: dict[str, str] = metadata.get("annotations") or {}

    def annotate(self, name: str, value: str) -> None:
        if self._annotations.get(name, "") != value:
            self._annotations = {**self._annotations, name: value}

    def set_progressing(self, status: str, reason: str, message: str) -> None:
        """Sets the Progressing condition."""
        condition = progress.condition(progress.PROGRESSING, status, reason, message, self.now_s)
        self.conditions = progress.with_condition(self.conditions, condition)

    @property
    def status(self) -> Object:
        """The status that the Deployment should have."""
        fields = self.counts if self.collisions is None else {**self.counts, "collisionCount": self.collisions}
        return {**fields, "conditions": self.conditions} if self.conditions else fields

    @property
    def is_changed(self) -> bool:
        """Whether the status or the annotations differ from the stored ones."""
        annotations = self.stored["metadata"].get("annotations") or {}
        return self._annotations != annotations or self.status != (self.stored.get("status") or {})

    @property
    def obj(self) -> Object:
        """The object to write."""
        metadata = {**self.stored["metadata"], "annotations": self._annotations}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            **self.stored,
            "metadata": metadata,
            "status": self.status,
        }
