"""What a ResourceFlavor may say of nodes: labels, taints and tolerations that a node, or a pod, could have."""

from __future__ import annotations

from headgate.kube.errors import FieldErrors
from headgate.kube.validation.labels import validate_labels
from headgate.kube.validation.node import validate_taints
from headgate.kube.validation.pod.tolerations import validate_tolerations
from headgate.quota.kinds.lenient import Object, part, parts, texts


def resource_flavor_problems(obj: Object) -> FieldErrors:
    spec = part(obj, "spec")
    found = validate_labels(texts(spec, "nodeLabels"), "spec.nodeLabels")
    found += validate_taints([each for _, each in parts(spec, "nodeTaints", "")], "spec.nodeTaints")
    return found + validate_tolerations([each for _, each in parts(spec, "tolerations", "")], "spec.tolerations")
