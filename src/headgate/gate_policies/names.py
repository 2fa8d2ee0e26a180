"""Names of GatePolicies: the resource, the gates of Headgate, the users that create pods for others."""

from __future__ import annotations

from typing import Final

from headgate.kube.api_resources import APIResource
from headgate.kube.scheduling_gates import QUEUE_ALLOCATION_GATE

GROUP: Final = "headgate.dev"
VERSION: Final = "v1alpha1"
KIND: Final = "GatePolicy"
GATE_POLICIES: Final = APIResource(GROUP, VERSION, "gatepolicies", namespaced=False)

OWN_GATES: Final = frozenset({QUEUE_ALLOCATION_GATE, "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"})
"""The gates that Headgate itself lifts. No policy can forbid it, because no other client would lift them."""

_SYSTEM_ACCOUNT: Final = "system:serviceaccount:kube-system:"
_CONTROLLERS: Final = (
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "job-controller",
    "replicaset-controller",
    "replication-controller",
    "statefulset-controller",
)
WORKLOAD_CONTROLLERS: Final = frozenset(
    {"system:kube-controller-manager", *(_SYSTEM_ACCOUNT + name for name in _CONTROLLERS)}
)
"""The users that create pods from pod templates. Whether a user may add a gate is decided when the template is
written."""

ACCEPTED: Final = "Accepted"
"""The condition that says whether the whole spec is in effect."""
OWNER_ALIVE: Final = "OwnerAlive"
"""The condition that says whether the Lease of the owner is renewed."""
WITHIN_MAX_AGE: Final = "WithinMaxAge"
"""The condition that says whether no pod waits longer than ``maxAge``."""
