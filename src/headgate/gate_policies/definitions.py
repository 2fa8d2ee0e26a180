"""The CustomResourceDefinition of GatePolicy (``headgate.dev/v1alpha1``, cluster-scoped).

The schema checks types only. The status reports a duration that cannot be read, a subject without a namespace, and a
conflict with another policy. Such an error does not stop an administrator from writing the rest of a policy, and a
conflict can also arise later. ``api.py`` reads the objects.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.gate_policies.api import ACTIONS, SUBJECT_KINDS
from headgate.gate_policies.names import GATE_POLICIES, GROUP, KIND, VERSION
from headgate.kube.crd_builder import (
    DATE_TIME,
    INT64,
    NON_NEGATIVE_INT32,
    STRING,
    crd_version,
    custom_resource_definition,
    described,
    list_atomic,
    list_map,
    list_set,
    object_schema,
    printer_column,
    resource_schema,
    string_enum,
    with_required,
)

Object = dict[str, Any]

_MAX_GATES: Final = 16
_MAX_SUBJECTS: Final = 256

_SUBJECT: Final = with_required(
    object_schema(
        kind=string_enum(*SUBJECT_KINDS),
        name={**STRING, "minLength": 1},
        namespace=described(STRING, "Of a ServiceAccount."),
    ),
    "kind",
    "name",
)
_SPEC: Final = with_required(
    object_schema(
        gates=described(
            list_set({**STRING, "minLength": 1, "maxLength": 317}, max_items=_MAX_GATES) | {"minItems": 1},
            "The scheduling gates of this policy. If another policy names a gate as well, the older one counts.",
        ),
        addedBy=described(
            list_atomic(_SUBJECT, max_items=_MAX_SUBJECTS),
            "The users that may create pods or pod templates with these gates. Absent: every user; empty: no user.",
        ),
        liftedBy=described(
            list_atomic(_SUBJECT, max_items=_MAX_SUBJECTS),
            "The users that may remove these gates from pods. Absent: every user; empty: no user.",
        ),
        maxPods=described(NON_NEGATIVE_INT32, "How many pods of a namespace may wait behind each gate."),
        maxAge=described(STRING, "How long a pod may wait behind a gate, as a duration: 90m, 24h."),
        onMaxAge=described(
            string_enum(*ACTIONS),
            "What happens to a pod that waits longer: an Event, the gate is lifted, or the pod is deleted. Default: "
            "Event.",
        ),
        ownerLease=described(
            with_required(object_schema(namespace=STRING, name=STRING), "namespace", "name"),
            "The Lease that the controller of these gates renews while it works.",
        ),
    ),
    "gates",
)
_CONDITION: Final = with_required(
    object_schema(
        type=STRING,
        status=string_enum("True", "False", "Unknown"),
        reason=STRING,
        message=STRING,
        lastTransitionTime=DATE_TIME,
        observedGeneration=INT64,
    ),
    "type",
    "status",
)
_STATUS: Final = object_schema(
    conditions=list_map(_CONDITION, "type"),
    pods=described(
        NON_NEGATIVE_INT32,
        "Pods behind the gates for which this policy is in effect; one behind two of them counts twice.",
    ),
    overduePods=described(NON_NEGATIVE_INT32, "Those of them that wait longer than maxAge."),
)
_COLUMNS: Final = [
    printer_column("GATES", ".spec.gates"),
    printer_column("PODS", ".status.pods", "integer"),
    printer_column("OVERDUE", ".status.overduePods", "integer"),
    printer_column("ACCEPTED", '.status.conditions[?(@.type=="Accepted")].status'),
    printer_column("OWNER ALIVE", '.status.conditions[?(@.type=="OwnerAlive")].status'),
    printer_column("AGE", ".metadata.creationTimestamp", "date"),
]

DEFINITION: Final[Object] = custom_resource_definition(
    GROUP,
    KIND,
    GATE_POLICIES.plural,
    (),
    namespaced=False,
    versions=[
        crd_version(
            VERSION,
            with_required(
                resource_schema("The owners and limits of scheduling gates.", spec=_SPEC, status=_STATUS),
                "spec",
            ),
            stored=True,
            subresources={"status": {}},
            additionalPrinterColumns=_COLUMNS,
        )
    ],
)
