"""PodTopologyLabels: a pod that gets a node also gets the zone and region of the node as labels.

The Binding carries the labels, and they are copied to the pod when it is bound. A pod that is created with a node (by
an old DaemonSet, by a static manifest) gets them at once. A node that does not exist has no labels to copy.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister

_TOPOLOGY: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def admit_binding(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    target = new.get("target") or {}
    if target.get("kind") == "Node":
        _copy(new, target.get("name") or "", lister)
    return None


def admit_new_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    node = (new.get("spec") or {}).get("nodeName")
    if node:
        _copy(new, node, lister)
    return None


def _copy(new: Object, node: str, lister: ObjectLister) -> None:
    labels = lister.labels("nodes", "", node) or {}
    copied = {key: labels[key] for key in _TOPOLOGY if key in labels}
    if copied:
        metadata = new["metadata"]
        new["metadata"] = {**metadata, "labels": {**(metadata.get("labels") or {}), **copied}}
