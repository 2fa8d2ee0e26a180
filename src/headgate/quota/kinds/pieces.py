"""Parts of schemas that several kinds of ``kueue.x-k8s.io`` share."""

from __future__ import annotations

from typing import Final

from headgate.kube.structural.building import (
    INT64,
    QUANTITY,
    TEXT,
    TIME,
    Object,
    atomic,
    fields,
    keyed,
    mapping,
    needing,
    resources,
    said,
    words,
)

_SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
REFERENCE: Final[Object] = {"type": "string", "maxLength": 253, "pattern": _SUBDOMAIN}
"""The name of another object."""
PART_NAME: Final[Object] = {"type": "string", "maxLength": 63, "pattern": _LABEL}
"""The name of something inside an object."""
CHECK_NAME: Final[Object] = {"type": "string", "maxLength": 316}
MANY: Final = 64

TOLERATION: Final = fields(effect=TEXT, key=TEXT, operator=TEXT, tolerationSeconds=INT64, value=TEXT)
TAINT: Final = needing(fields(effect=TEXT, key=TEXT, timeAdded=TIME, value=TEXT), "effect", "key")
SELECTOR: Final[Object] = {
    **fields(
        matchLabels=mapping(TEXT),
        matchExpressions=atomic(needing(fields(key=TEXT, operator=TEXT, values=atomic(TEXT)), "key", "operator")),
    ),
    "x-kubernetes-map-type": "atomic",
}
FAIR_SHARING: Final = fields(
    "Its part of what is shared, where sharing is fair.",
    weight={**QUANTITY, "default": 1},
)
STOP_POLICY: Final = said(
    words("None", "Hold", "HoldAndDrain", default="None"),
    "Hold admits nothing new; HoldAndDrain also ends what was admitted.",
)
_CONDITION: Final = needing(
    fields(
        type={
            "type": "string",
            "maxLength": 316,
            "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        },
        status=words("True", "False", "Unknown"),
        observedGeneration={**INT64, "minimum": 0},
        lastTransitionTime=TIME,
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
CONDITIONS: Final = keyed(_CONDITION, "type")
_CONSUMED: Final = needing(fields(consumedResources=resources(), lastUpdate=TIME), "consumedResources", "lastUpdate")


def fair_sharing_status(*, consumed: bool) -> Object:
    """``consumed``: with what was used over time."""
    further = {"admissionFairSharingStatus": _CONSUMED} if consumed else {}
    return needing(fields(weightedShare=INT64, **further), "weightedShare")


def flavor_usage(*, borrowed: bool) -> Object:
    """How much of each resource of each flavor is used."""
    further = {"borrowed": QUANTITY} if borrowed else {}
    used = needing(fields(name=TEXT, total=QUANTITY, **further), "name")
    flavor = needing(fields(name=REFERENCE, resources=keyed(used, "name", most=MANY)), "name", "resources")
    return keyed(flavor, "name", most=MANY)


_QUOTA: Final = needing(
    fields(
        name=TEXT,
        nominalQuota=said(QUANTITY, "What belongs to it."),
        borrowingLimit=said(QUANTITY, "So much more it may use of what others in the cohort do not use; unset: all."),
        lendingLimit=said(QUANTITY, "So much of its own others in the cohort may use; unset: all."),
    ),
    "name",
    "nominalQuota",
)
_FLAVOR_QUOTAS: Final = needing(
    fields(name=REFERENCE, resources=keyed(_QUOTA, "name", most=MANY, least=1)), "name", "resources"
)
_RESOURCE_GROUP: Final = needing(
    fields(
        "Resources that are always taken of the same flavor.",
        coveredResources=atomic(TEXT, most=MANY, least=1),
        flavors=said(keyed(_FLAVOR_QUOTAS, "name", most=MANY, least=1), "In the order in which they are tried."),
    ),
    "coveredResources",
    "flavors",
)
RESOURCE_GROUPS: Final = atomic(_RESOURCE_GROUP, most=16)
