"""DefaultTolerationSeconds: a pod tolerates a not-ready or unreachable node for five minutes, unless it says otherwise.

The plugin also runs on update: a client that sends back a pod without the two tolerations does not remove them.
"""

from __future__ import annotations

from typing import Final

from headgate.apimachinery import api_errors
from headgate.apiserver.admission_plugins.attributes import AdmissionAttributes, Object, ObjectLister
from headgate.kube import taints

_OUTAGE_S: Final = 300
_OUTAGES: Final = (taints.NOT_READY, taints.UNREACHABLE)
_EFFECTS: Final = (None, "", taints.NO_EXECUTE)


def admit_pod(
    attributes: AdmissionAttributes, new: Object, old: Object | None, lister: ObjectLister
) -> api_errors.StatusError | None:
    spec = new.get("spec") or {}
    tolerations = spec.get("tolerations") or ()
    tolerated = {each.get("key") or "" for each in tolerations if each.get("effect") in _EFFECTS}
    if "" in tolerated:
        return None
    added = [
        {"key": key, "operator": "Exists", "effect": taints.NO_EXECUTE, "tolerationSeconds": _OUTAGE_S}
        for key in _OUTAGES
        if key not in tolerated
    ]
    if added:
        new["spec"] = {**spec, "tolerations": [*tolerations, *added]}
    return None
