"""Schema parts that several kinds of ``kueue.x-k8s.io`` share."""

from __future__ import annotations

from typing import Final

from headgate.kube.crd_builder import (
    DATE_TIME,
    INT64,
    QUANTITY,
    STRING,
    Object,
    described,
    list_atomic,
    list_map,
    map_of,
    object_schema,
    resource_list,
    string_enum,
    with_required,
)

_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
REFERENCE: Final[Object] = {"type": "string", "maxLength": 253, "pattern": _SUBDOMAIN}
"""The name of another object."""
PART_NAME: Final[Object] = {"type": "string", "maxLength": 63, "pattern": _LABEL}
"""The name of something inside an object."""
CHECK_NAME: Final[Object] = {"type": "string", "maxLength": 316}
MANY: Final = 64

TOLERATION: Final = object_schema(effect=STRING, key=STRING, operator=STRING, tolerationSeconds=INT64, value=STRING)
TAINT: Final = with_required(
    object_schema(effect=STRING, key=STRING, timeAdded=DATE_TIME, value=STRING), "effect", "key"
)
SELECTOR: Final[Object] = {
    **object_schema(
        matchLabels=map_of(STRING),
        matchExpressions=list_atomic(
            with_required(object_schema(key=STRING, operator=STRING, values=list_atomic(STRING)), "key", "operator")
        ),
    ),
    "x-kubernetes-map-type": "atomic",
}
FAIR_SHARING: Final = object_schema(
    "Its part of what is shared, where sharing is fair.",
    weight={**QUANTITY, "default": 1},
)
STOP_POLICY: Final = described(
    string_enum("None", "Hold", "HoldAndDrain", default="None"),
    "Hold admits nothing new; HoldAndDrain also ends what was admitted.",
)
_CONDITION: Final = with_required(
    object_schema(
        type={
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        status=string_enum("True", "False", "Unknown"),
        observedGeneration={**INT64, "minimum": 0},
        lastTransitionTime=DATE_TIME,
        reason={
            "type": "string",
            "minLength": 1,
            "maxLength": 1024,
            "pattern": r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        },
        message={"type": "string", "maxLength": 32768},
    ),
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
)
CONDITIONS: Final = list_map(_CONDITION, "type")
_CONSUMED: Final = with_required(
    object_schema(consumedResources=resource_list(), lastUpdate=DATE_TIME), "consumedResources", "lastUpdate"
)


def fair_sharing_status(*, consumed: bool) -> Object:
    """``consumed``: include the usage over time."""
    further = {"admissionFairSharingStatus": _CONSUMED} if consumed else {}
    return with_required(object_schema(weightedShare=INT64, **further), "weightedShare")


def flavor_usage(*, borrowed: bool) -> Object:
    """How much of each resource of each flavor is used."""
    further = {"borrowed": QUANTITY} if borrowed else {}
    used = with_required(object_schema(name=STRING, total=QUANTITY, **further), "name")
    flavor = with_required(
        object_schema(name=REFERENCE, resources=list_map(used, "name", max_items=MANY)), "name", "resources"
    )
    return list_map(flavor, "name", max_items=MANY)


_QUOTA: Final = with_required(
    object_schema(
        name=STRING,
        nominalQuota=described(QUANTITY, "The quota of its own."),
        borrowingLimit=described(
            QUANTITY, "The most that it may borrow of the unused quota of its cohort; unset: all."
        ),
        lendingLimit=described(QUANTITY, "The most of its quota that others in the cohort may use; unset: all."),
    ),
    "name",
    "nominalQuota",
)
_FLAVOR_QUOTAS: Final = with_required(
    object_schema(name=REFERENCE, resources=list_map(_QUOTA, "name", max_items=MANY, min_items=1)), "name", "resources"
)
_RESOURCE_GROUP: Final = with_required(
    object_schema(
        "Resources that are always taken of the same flavor.",
        coveredResources=list_atomic(STRING, max_items=MANY, min_items=1),
        flavors=described(
            list_map(_FLAVOR_QUOTAS, "name", max_items=MANY, min_items=1), "In the order in which they are tried."
        ),
    ),
    "coveredResources",
    "flavors",
)
RESOURCE_GROUPS: Final = list_atomic(_RESOURCE_GROUP, max_items=16)
