"""The identity of a StatefulSet's pod: its ordinal, its name, the pod itself, and its claims.

A pod is identified only by its name, ``<set>-<ordinal>``. The API server does not allow two pods of one name, so there
is never more than one pod of an ordinal. Claims are created before the pod and stay when the pod is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from headgate.controllers.ownership.controller_revisions import REVISION_LABEL
from headgate.controllers.ownership.pods import pod_from_template, prefix_of
from headgate.kube.schema import GroupVersionKind

Object = dict[str, Any]

KIND: Final = GroupVersionKind("apps", "v1", "StatefulSet")
NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(?s:(.*))-(0|[1-9][0-9]{0,9})")
_MAX_ORDINAL: Final = 2**31 - 1


def ordinal_of(set_name: str, pod_name: str) -> int | None:
    """The ordinal, if the name is one of the set's pod names."""
    match = _NAME.fullmatch(pod_name)
    if match is None or match.group(1) != set_name or int(match.group(2)) > _MAX_ORDINAL:
        return None
    return int(match.group(2))


def pod_name(set_: Object, ordinal: int) -> str:
    return f"{set_['metadata']['name']}-{ordinal}"


def claim_templates(set_: Object) -> list[Object]:
    return set_["spec"].get("volumeClaimTemplates") or []


def claim_name(set_: Object, template: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{pod_name(set_, ordinal)}"


def claim_names(set_: Object, ordinal: int) -> list[str]:
    return [claim_name(set_, template, ordinal) for template in claim_templates(set_)]


def claim_from(set_: Object, template: Object, ordinal: int) -> Object:
    meta = template["metadata"]
    selected = (set_["spec"].get("selector") or {}).get("matchLabels") or {}
    labels = {**(meta.get("labels") or {}), **selected}
    kept = {key: value for key, value in meta.items() if key != "creationTimestamp"}
    metadata = {**kept, "name": claim_name(set_, template, ordinal), "namespace": set_["metadata"]["namespace"]}
    if labels:
        metadata["labels"] = labels
    claim = {key: value for key, value in template.items() if key != "status"}
    return {**claim, "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}


def identity_labels(set_: Object, ordinal: int) -> dict[str, str]:
    return {NAME_LABEL: pod_name(set_, ordinal), INDEX_LABEL: str(ordinal)}


def has_identity(pod: Object) -> bool:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return bool(labels.get(NAME_LABEL) == pod["metadata"]["name"])


def member_from(set_: Object, template: Object, revision_name: str, ordinal: int) -> Object:
    """The pod of an ordinal. ``template`` is the pod template of the revision ``revision_name``."""
    name = pod_name(set_, ordinal)
    pod = pod_from_template(template, set_, KIND, name, prefix=prefix_of(set_["metadata"]["name"]))
    labels = pod["metadata"].get("labels") or {}
    pod["metadata"]["labels"] = {**labels, **identity_labels(set_, ordinal), REVISION_LABEL: revision_name}
    spec: Object = pod["spec"]
    spec["hostname"] = name
    if set_["spec"].get("serviceName"):
        spec["subdomain"] = set_["spec"]["serviceName"]
    volumes = _volumes(set_, spec.get("volumes") or (), ordinal)
    if volumes:
        spec["volumes"] = volumes
    return pod


def _volumes(set_: Object, own: list[Object] | tuple[()], ordinal: int) -> list[Object]:
    """The volumes of the pod. Claims replace volumes of the same name."""
    templates = claim_templates(set_)
    claimed = [
        {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": claim_name(set_, template, ordinal)},
        }
        for template in templates
    ]
    claim_volume_names = {template["metadata"]["name"] for template in templates}
    return claimed + [volume for volume in own if volume["name"] not in claim_volume_names]
