"""PodTopologyLabels: a pod that gets a node also gets the names of the node's zone and region, as labels.

They travel on the Binding, whose labels are copied to the pod when it is bound; a pod that is created with a node
(by a DaemonSet of old, by a static manifest) gets them at once. A node that does not exist has nothing to give.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.builtin.attributes import Attributes, Object, View
from headgate.kube import status

_TOPOLOGY: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def admit_binding(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    target = new.get("target") or {}
    if target.get("kind") == "Node":
        _copy(new, target.get("name") or "", view)
    return None


def admit_new_pod(attributes: Attributes, new: Object, old: Object | None, view: View) -> status.ApiError | None:
    node = (new.get("spec") or {}).get("nodeName")
    if node:
        _copy(new, node, view)
    return None


def _copy(new: Object, node: str, view: View) -> None:
    labels = view.labels("nodes", "", node) or {}
    copied = {key: labels[key] for key in _TOPOLOGY if key in labels}
    if copied:
        metadata = new["metadata"]
        new["metadata"] = {**metadata, "labels": {**(metadata.get("labels") or {}), **copied}}
