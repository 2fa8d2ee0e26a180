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
"""The name of an item inside an object, such as a pod set."""
CHECK_NAME: Final[Object] = {"type": "string", "maxLength": 316}
MAX_ITEMS: Final = 64

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
    "Its weight if fair sharing is enabled.",
    weight={**QUANTITY, "default": 1},
)
STOP_POLICY: Final = described(
    string_enum("None", "Hold", "HoldAndDrain", default="None"),
    "Hold admits no more workloads; HoldAndDrain also evicts the admitted ones.",
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
    """``consumed``: include ``consumedResources``, the usage over time."""
    version_fields = {"admissionFairSharingStatus": _CONSUMED} if consumed else {}
    return with_required(object_schema(weightedShare=INT64, **version_fields), "weightedShare")


def flavor_usage(*, borrowed: bool) -> Object:
    """How much of each resource of each flavor is used."""
    version_fields = {"borrowed": QUANTITY} if borrowed else {}
    used = with_required(object_schema(name=STRING, total=QUANTITY, **version_fields), "name")
    flavor = with_required(
        object_schema(name=REFERENCE, resources=list_map(used, "name", max_items=MAX_ITEMS)), "name", "resources"
    )
    return list_map(flavor, "name", max_items=MAX_ITEMS)


_QUOTA: Final = with_required(
    object_schema(
        name=STRING,
        nominalQuota=described(QUANTITY, "The quota without borrowing."),
        borrowingLimit=described(QUANTITY, "How much unused quota of its cohort it may borrow; unset: no limit."),
        lendingLimit=described(
            QUANTITY, "How much of its unused quota others in the cohort may borrow; unset: all of it."
        ),
    ),
    "name",
    "nominalQuota",
)
_FLAVOR_QUOTAS: Final = with_required(
    object_schema(name=REFERENCE, resources=list_map(_QUOTA, "name", max_items=MAX_ITEMS, min_items=1)),
    "name",
    "resources",
)
_RESOURCE_GROUP: Final = with_required(
    object_schema(
        "Resources for which a pod set gets the same flavor.",
        coveredResources=list_atomic(STRING, max_items=MAX_ITEMS, min_items=1),
        flavors=described(
            list_map(_FLAVOR_QUOTAS, "name", max_items=MAX_ITEMS, min_items=1), "In the order in which they are tried."
        ),
    ),
    "coveredResources",
    "flavors",
)
RESOURCE_GROUPS: Final = list_atomic(_RESOURCE_GROUP, max_items=16)
