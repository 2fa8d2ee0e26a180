"""Cases of CustomResourceDefinitions without their schemas: names, scope, versions. Run by
``test_http_custom_definitions.py``.
"""

from __future__ import annotations

from typing import Any

from harness.request_cases import (
    case,
)
from real.custom_kinds import (
    BOOLEAN,
    INTEGER,
    STRING,
    definition,
    of,
    refused,
    version,
)

COLORED = of(spec=of(color={**STRING, "default": "red"}))


def hue(name: str, **spec: str) -> dict[str, Any]:
    return {"apiVersion": "hue.example.com/v1", "kind": "Hue", "metadata": {"name": name}, "spec": spec}


def with_version(**more: Any) -> Any:
    return definition("trials", "Trial", version("v1", of(spec=of(a=STRING, b=INTEGER, c=BOOLEAN)), **more))


def changed(given: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**given, "spec": {**given["spec"], **spec}}


PLAIN = definition("trials", "Trial", version())
STRANGE = definition("trials", "Trial", version(), group="strange.example.com")

FRAME = [
    case(
        "names of a definition",
        *refused(
            {**PLAIN, "metadata": {"name": "other.test.example.com"}},
            {**PLAIN, "metadata": {"name": "Bad"}},
            {**PLAIN, "metadata": {}},
            definition("trials", "Trial", version(), names={"plural": "Trials"}),
            definition("trials", "trial_x", version()),
            definition("trials", "Trial", version(), names={"listKind": "Trial"}),
            definition("trials", "Trial", version(), names={"listKind": "1bad", "singular": "BAD"}),
            definition("trials", "Trial", version(), names={"shortNames": ["UP", "ok", ""], "categories": ["A b"]}),
            definition("trials", "", version()),
            definition("", "Trial", version()),
            changed(PLAIN, names={}),
        ),
    ),
    case(
        "group and scope of a definition",
        *refused(
            definition("trials", "Trial", version(), group=""),
            definition("trials", "Trial", version(), group="nodots"),
            definition("trials", "Trial", version(), group="Bad.Group"),
            definition("trials", "Trial", version(), scope=""),
            definition("trials", "Trial", version(), scope="Galaxy"),
            definition("trials", "Trial", version(), group="sig.k8s.io"),
            definition("trials", "Trial", version(), group="sig.kubernetes.io")
            | {"metadata": {"name": "trials.sig.kubernetes.io", "annotations": {"api-approved.kubernetes.io": "no"}}},
            definition("trials", "Trial", version(), group="sig.k8s.io")
            | {
                "metadata": {
                    "name": "trials.sig.k8s.io",
                    "annotations": {"api-approved.kubernetes.io": "unapproved, x"},
                }
            },
        ),
    ),
    case(
        "versions of a definition",
        *refused(
            changed(PLAIN, versions=[]),
            changed(PLAIN, versions=None),
            definition("trials", "Trial", version(storage=False)),
            definition("trials", "Trial", version("v1"), version("v2", of(a=STRING))),
            definition("trials", "Trial", version("v1"), version("v1", of(a=STRING), storage=False)),
            definition("trials", "Trial", version("V_1")),
            definition("trials", "Trial", version(""), version("v2", of(a=STRING), storage=False)),
            definition("trials", "Trial", version("v1", deprecationWarning="x")),
            definition("trials", "Trial", version("v1", deprecated=True, deprecationWarning="")),
            definition("trials", "Trial", version("v1", deprecated=True, deprecationWarning="a\nb")),
            definition("trials", "Trial", version("v1", deprecated=True, deprecationWarning="a" * 257)),
            definition("trials", "Trial", {"name": "v1", "served": True, "storage": True}),
            definition("trials", "Trial", {"name": "v1", "served": True, "storage": True, "schema": {}}),
            definition("trials", "Trial", version(), {"name": "v2", "served": True, "storage": False}),
            changed(PLAIN, preserveUnknownFields=True),
            changed(
                with_version(), preserveUnknownFields=True, versions=[version("v1", of(a={**STRING, "default": "x"}))]
            ),
        ),
    ),
    case(
        "columns of a definition",
        *refused(
            with_version(additionalPrinterColumns=[{"name": "", "type": "", "jsonPath": ""}]),
            with_version(
                additionalPrinterColumns=[{"name": "A", "type": "odd", "format": "odd", "jsonPath": "spec.a"}]
            ),
            with_version(additionalPrinterColumns=[{"name": "A", "type": "date", "jsonPath": ".spec[?(@.x=="}]),
            with_version(additionalPrinterColumns=[{"name": "A", "type": "string", "format": "date", "jsonPath": "."}]),
        ),
    ),
    case(
        "subresources of a definition",
        *refused(
            with_version(subresources={"scale": {"specReplicasPath": "", "statusReplicasPath": ""}}),
            with_version(subresources={"scale": {"specReplicasPath": "spec.b", "statusReplicasPath": ".spec.b"}}),
            with_version(
                subresources={
                    "scale": {
                        "specReplicasPath": ".status.b",
                        "statusReplicasPath": ".status.b",
                        "labelSelectorPath": "spec.a",
                    }
                }
            ),
            with_version(
                subresources={
                    "scale": {
                        "specReplicasPath": ".spec.b",
                        "statusReplicasPath": ".status.b",
                        "labelSelectorPath": ".metadata.a",
                    }
                }
            ),
        ),
    ),
    case(
        "selectable fields of a definition",
        *refused(
            with_version(selectableFields=[{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.a"}]),
            with_version(selectableFields=[{"jsonPath": ""}]),
            with_version(selectableFields=[{"jsonPath": ".spec"}]),
            with_version(selectableFields=[{"jsonPath": ".spec.none"}]),
            with_version(selectableFields=[{"jsonPath": "spec.a"}]),
            with_version(selectableFields=[{"jsonPath": ".spec.a[0]"}]),
            with_version(selectableFields=[{"jsonPath": ".metadata.name"}]),
            with_version(selectableFields=[{"jsonPath": "."}]),
            definition(
                "trials",
                "Trial",
                version(
                    "v1",
                    of(spec=of(**{f"f{number}": STRING for number in range(9)})),
                    selectableFields=[{"jsonPath": f".spec.f{number}"} for number in range(9)],
                ),
            ),
        ),
    ),
    case(
        "conversion of a definition",
        *refused(
            changed(PLAIN, conversion={"strategy": "Odd"}),
            changed(PLAIN, conversion={"strategy": ""}),
            changed(PLAIN, conversion={"strategy": "Webhook"}),
            changed(PLAIN, conversion={"strategy": "Webhook", "webhook": {"clientConfig": {}}}),
            changed(
                PLAIN,
                conversion={
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"url": "http://x/?a=b"},
                        "conversionReviewVersions": ["v9", "v9", "V"],
                    },
                },
            ),
            changed(
                PLAIN,
                conversion={
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {"service": {"name": "", "namespace": "", "port": 70000}},
                        "conversionReviewVersions": ["v1"],
                    },
                },
            ),
            changed(
                PLAIN,
                conversion={
                    "strategy": "None",
                    "webhook": {"clientConfig": {"url": "https://x/"}, "conversionReviewVersions": ["v1"]},
                },
            ),
        ),
    ),
]
