"""Hashing of names, so that a recording can be given to others.

Every text is replaced by a keyed hash unless it is listed here as plain: kinds, phases, reasons, times, quantities,
uids, and the labels of nodes that prices and topology need. A field that is not listed is therefore hashed. Equal
texts get equal hashes within one key, so references between objects (owner, queue, cohort, flavor, node, group) stay
joined. Free texts (messages) are dropped, because they may contain names.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from headgate.capacity.names import DEFAULT, GROUP_NAMES, QUEUE_NAME, ROOT, STAMP
from headgate.recording.changes import Object

_DIGITS: Final = 15
_PLAIN_FIELDS: Final = frozenset(
    {
        *("apiVersion", "kind", "uid", "resourceVersion", "phase", "reason", "type", "status", "operator", "effect"),
        *("creationTimestamp", "deletionTimestamp", "lastTransitionTime", "startTime", "completionTime", "eventTime"),
        *("firstTimestamp", "lastTimestamp", "restartPolicy", "preemptionPolicy", "whenUnsatisfiable", "schedulerName"),
        *("state", "queueingStrategy", "stopPolicy", "nominalQuota", "borrowingLimit", "lendingLimit", "weight"),
        *("withinClusterQueue", "reclaimWithinCohort", "policy", "reportingComponent", "component", "dequeueStrategy"),
        *("requeueAt", "flavorFungibility", "whenCanBorrow", "whenCanPreempt", "maxPriorityThreshold"),
        *("nodeAffinityPolicy", "nodeTaintsPolicy", "finalizers", "coveredResources", "apiGroup", "fieldPath"),
    }
)
_PLAIN_MAPS: Final = frozenset(
    {
        *("requests", "limits", "capacity", "allocatable", "allocated", "capability", "deserved", "resource"),
        *("resourceUsage", "overhead", "minResources", "allocatedResources"),
    }
)
"""Maps of resources to quantities."""
_KEYED_BY_NAME: Final = frozenset({"minTaskMember"})
"""Maps whose keys are names."""
_FREE_TEXTS: Final = frozenset({"message"})
_PLAIN_LABELS: Final = frozenset(
    {
        *("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "karpenter.sh/capacity-type"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/arch", "kubernetes.io/os"),
        *("eks.amazonaws.com/capacityType", "cloud.google.com/gke-spot", "kubernetes.azure.com/scalesetpriority"),
        *("kueue.x-k8s.io/managed", "kueue.x-k8s.io/pod-group-total-count", "batch.kubernetes.io/job-completion-index"),
    }
)
_WELL_KNOWN: Final = ("kubernetes.io/", "k8s.io/", "volcano.sh/", "headgate.dev/", "karpenter.sh/", "nvidia.com/")
_NAMES_OF_ALL: Final = frozenset({"", ROOT, DEFAULT})
"""Names that mean the same in every cluster."""
_NAME_ANNOTATIONS: Final = frozenset(
    {QUEUE_NAME, *GROUP_NAMES, "volcano.sh/task-spec", "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/queue-name"}
)


class NameHasher:
    def __init__(self, key: bytes) -> None:
        self._key = key
        self._hashes: dict[str, str] = {}

    def name(self, text: str) -> str:
        """A valid name and label value."""
        if text in _NAMES_OF_ALL:
            return text
        found = self._hashes.get(text)
        if found is None:
            found = f"h{hmac.digest(self._key, text.encode(), 'sha256').hex()[:_DIGITS]}"
            self._hashes[text] = found
        return found

    def hash_object(self, obj: Object) -> Object:
        """The object without names. It must have been pruned before."""
        found: Object = self._value("", obj)
        annotations = (obj.get("metadata") or {}).get("annotations")
        if annotations:
            found["metadata"]["annotations"] = {key: self._annotation(key, text) for key, text in annotations.items()}
        return found

    def _value(self, field: str, value: Any) -> Any:
        if isinstance(value, str):
            if field in _FREE_TEXTS:
                return ""
            return value if field in _PLAIN_FIELDS else self._text(field, value)
        if isinstance(value, list):
            return [self._value(field, each) for each in value]
        if not isinstance(value, dict):
            return value
        if field in _PLAIN_MAPS:
            return value
        if field in ("labels", "matchLabels", "nodeSelector", "nodeLabels"):
            return {self._label_key(key): self._label_value(key, text) for key, text in value.items()}
        if "key" in value and ("operator" in value or "effect" in value):
            return self._requirement(value)
        if field in _KEYED_BY_NAME:
            return {self.name(key): each for key, each in value.items()}
        return {key: self._value(key, each) for key, each in value.items()}

    def _text(self, field: str, value: str) -> str:
        if field == "topologyKey":
            return self._label_key(value)
        if field == "name" and (value in ("cpu", "memory", "pods", "ephemeral-storage") or "/" in value):
            return value  # a resource, or a scheduling gate
        return self.name(value)

    def _requirement(self, value: Mapping[str, Any]) -> Object:
        """A toleration, a taint or a selector requirement."""
        key = str(value["key"])
        found = {field: self._value(field, each) for field, each in value.items()}
        found["key"] = self._label_key(key)
        if isinstance(value.get("value"), str):
            found["value"] = self._label_value(key, value["value"])
        if isinstance(value.get("values"), list):
            found["values"] = [self._label_value(key, each) for each in value["values"]]
        return found

    def _label_key(self, key: str) -> str:
        return key if any(each in key for each in _WELL_KNOWN) or not key else self.name(key)

    def _label_value(self, key: str, value: Any) -> Any:
        return value if key in _PLAIN_LABELS or value in ("true", "false") or not value else self.name(str(value))

    def _annotation(self, key: str, text: str) -> str:
        if key in _NAME_ANNOTATIONS or key.startswith("kueue.x-k8s.io/"):
            return text if text in ("true", "false") or text.isdigit() else self.name(text)
        if key == STAMP:
            return self._stamp(text)
        return text

    def _stamp(self, text: str) -> str:
        try:
            fields = msgspec.json.decode(text)
        except msgspec.DecodeError:
            return ""
        if not isinstance(fields, dict) or not isinstance(fields.get("queue"), str):
            return ""
        return msgspec.json.encode({**fields, "queue": self.name(fields["queue"])}).decode()
