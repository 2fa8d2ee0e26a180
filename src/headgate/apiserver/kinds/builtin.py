"""The table of built-in kinds.

The rows are those of Kubernetes v1.35; ``tests/unit/apiserver/kinds`` compares them with the discovery documents of a
kube-apiserver of that version. A group that is missing here (certificates, flow control, API registration) is not
served.
"""

from __future__ import annotations

from typing import Final

from headgate.apiserver.kinds.rows.authorization_and_admission import ADMISSION, AUTHENTICATION, AUTHORIZATION, RBAC
from headgate.apiserver.kinds.rows.core import CORE, EVENTS
from headgate.apiserver.kinds.rows.extensions import EXTENSIONS
from headgate.apiserver.kinds.rows.networking_and_storage import (
    COORDINATION,
    DISCOVERY,
    NETWORKING,
    NODE,
    RESOURCE,
    STORAGE,
)
from headgate.apiserver.kinds.rows.workloads import APPS, AUTOSCALING, BATCH, POLICY, SCHEDULING
from headgate.apiserver.kinds.table import KindTable

BUILTIN: Final = KindTable(
    (
        *CORE,
        *APPS,
        *EVENTS,
        *AUTHENTICATION,
        *AUTHORIZATION,
        *AUTOSCALING,
        *BATCH,
        *NETWORKING,
        *POLICY,
        *RBAC,
        *STORAGE,
        *ADMISSION,
        *EXTENSIONS,
        *SCHEDULING,
        *COORDINATION,
        *NODE,
        *DISCOVERY,
        *RESOURCE,
    )
)
