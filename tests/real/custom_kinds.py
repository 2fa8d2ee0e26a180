"""The definitions that the comparison of custom objects works with, and how both servers are given them."""

from __future__ import annotations

import json
import time
from typing import Any

from harness.request_cases import Step, post
from harness.server import Server

GROUP = "test.example.com"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = f"/apis/{GROUP}/v1/namespaces/{{ns}}/things"
PLAINS = f"/apis/{GROUP}/v1/plains"
MULTIS = f"/apis/{GROUP}/{{version}}/namespaces/{{ns}}/multis"
READY_S = 30.0

STRING, INTEGER, NUMBER, BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def listed(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


SPEC = of(
    text={**STRING, "minLength": 2, "maxLength": 5, "description": "MINE: a short text."},
    word={**STRING, "enum": ["red", "green", "blue"]},
    odd={**INTEGER, "enum": [1, 3, 5]},
    code={**STRING, "pattern": "^[a-z]+-[0-9]{2,4}$"},
    date={**STRING, "format": "date"},
    moment={**STRING, "format": "date-time"},
    address={**STRING, "format": "ipv4"},
    address6={**STRING, "format": "ipv6"},
    net={**STRING, "format": "cidr"},
    host={**STRING, "format": "hostname"},
    mail={**STRING, "format": "email"},
    link={**STRING, "format": "uri"},
    id={**STRING, "format": "uuid"},
    bytes={**STRING, "format": "byte"},
    span={**STRING, "format": "duration"},
    mac={**STRING, "format": "mac"},
    unknown={**STRING, "format": "of-no-meaning"},
    count={**INTEGER, "minimum": 2, "maximum": 10},
    strict={**INTEGER, "minimum": 2, "exclusiveMinimum": True, "maximum": 10, "exclusiveMaximum": True},
    tens={**INTEGER, "multipleOf": 10},
    small={**INTEGER, "format": "int32"},
    ratio={**NUMBER, "minimum": 0.5, "maximum": 1.5},
    tenth={**NUMBER, "multipleOf": 0.1},
    flag=BOOLEAN,
    port={"x-kubernetes-int-or-string": True},
    maybe={**STRING, "nullable": True},
    some={**of(a=STRING, b=STRING), "minProperties": 1, "maxProperties": 2, "additionalProperties": STRING}
    | {"properties": {}},
    tags=listed(STRING, minItems=1, maxItems=3),
    set=listed(STRING, **{"x-kubernetes-list-type": "set"}),
    numbers=listed(NUMBER, **{"x-kubernetes-list-type": "set"}),
    keyed=listed(
        {**of(name=STRING, port={**INTEGER, "default": 80}, note=STRING), "required": ["name"]},
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"]},
    ),
    single=listed(
        {**of(name=STRING, note=STRING), "required": ["name"]},
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    ),
    whole={**of(a=STRING, b=STRING), "x-kubernetes-map-type": "atomic"},
    labels={"type": "object", "additionalProperties": STRING},
    counts={"type": "object", "additionalProperties": {**INTEGER, "minimum": 0}},
    free={"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": of(a=STRING)}},
    any={"x-kubernetes-preserve-unknown-fields": True},
    nested=of(a={**of(b=of(c={**STRING, "default": "deep"})), "default": {}}, d={**STRING, "default": "plain"}),
    defaulted=listed(of(x={**INTEGER, "default": 7}, y=STRING)),
    nullDefault={**STRING, "nullable": True, "default": "given"},
    replicas={**INTEGER, "default": 1},
    resource={**of(), "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    either={
        **of(a=STRING, b=STRING, c=INTEGER),
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    anyway={**INTEGER, "anyOf": [{"minimum": 100}, {"maximum": 10, "multipleOf": 2}]},
    all={**INTEGER, "allOf": [{"minimum": 5}, {"maximum": 7}]},
    never={**STRING, "not": {"enum": ["forbidden"]}},
    needs={**of(a=STRING, b=STRING), "required": ["a", "b"]},
)
STATUS = of(
    replicas=INTEGER,
    selector=STRING,
    phase={**STRING, "enum": ["New", "Old"]},
    conditions=listed(
        {**of(type=STRING, status=STRING), "required": ["type"]},
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
)


def definition(plural: str, kind: str, *versions: dict[str, Any], scope: str = "Namespaced", **more: Any) -> Any:
    spec = {key: value for key, value in more.items() if key != "names"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{spec.get('group', GROUP)}"},
        "spec": {
            "group": GROUP,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **more.get("names", {})},
            "versions": list(versions),
            **spec,
        },
    }


def version(name: str = "v1", schema: Any = None, *, storage: bool = True, served: bool = True, **more: Any) -> Any:
    schema = schema if schema is not None else of()
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


COLUMNS = [
    {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "description": "How many"},
    {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio", "priority": 1},
    {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
    {"name": "First", "type": "string", "jsonPath": ".spec.tags[0]"},
    {"name": "All", "type": "string", "jsonPath": ".spec.tags[*]"},
    {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Dotted", "type": "string", "jsonPath": r".metadata.labels.example\.com/name"},
    {"name": "Any", "type": "string", "jsonPath": ".spec.any"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]

THING = definition(
    "things",
    "Thing",
    version(
        "v1",
        of(spec=SPEC, status=STATUS),
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=COLUMNS,
        selectableFields=[{"jsonPath": ".spec.word"}, {"jsonPath": ".spec.count"}, {"jsonPath": ".spec.flag"}],
    ),
    names={"shortNames": ["tg", "thg"], "categories": ["all", "custom"], "singular": "thing"},
)
PLAIN = definition(
    "plains",
    "Plain",
    version("v1", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    scope="Cluster",
    names={"listKind": "PlainCollection"},
)
SHARED = of(spec=of(size=INTEGER, color={**STRING, "default": "red"}), status=of(phase=STRING))
MULTI = definition(
    "multis",
    "Multi",
    version("v1", SHARED, subresources={"status": {}}),
    version("v2", of(spec=of(size=INTEGER, weight={**INTEGER, "default": 3})), storage=False),
    version("v1beta1", SHARED, storage=False, deprecated=True),
    version("v1alpha1", SHARED, storage=False, served=False),
    version("v1alpha2", SHARED, storage=False, deprecated=True, deprecationWarning="go away"),
)
SHARED_DEFINITIONS = (THING, PLAIN, MULTI)


def refused(*definitions: dict[str, Any]) -> list[Step]:
    """Try these definitions, without leaving any behind."""
    return [post(f"{DEFINITIONS}?dryRun=All", each).in_any_order() for each in definitions]


def define(server: Server) -> None:
    """Create the definitions, and wait until their kinds are served."""
    establish(server, *SHARED_DEFINITIONS)


def establish(server: Server, *definitions: dict[str, Any]) -> None:
    for each in definitions:
        answer = server.request("POST", DEFINITIONS, {"Content-Type": "application/json"}, json.dumps(each).encode())
        assert answer.status in (201, 409), answer.body
    for each in definitions:
        served(server, each)


def served(server: Server, each: Any) -> None:
    """Waits until the kinds of a definition are served, and discovery has their schemas: a real server publishes them
    later."""
    deadline_s = time.monotonic() + READY_S
    names = each["spec"]["names"]
    for one in each["spec"]["versions"]:
        place = f"apis/{each['spec']['group']}/{one['name']}"
        while one["served"] and not _is_told(server, place, names):
            assert time.monotonic() < deadline_s, f"/{place}/{names['plural']} is not served"
            time.sleep(0.1)


def _is_told(server: Server, place: str, names: Any) -> bool:
    if server.request("GET", f"/{place}/{names['plural']}").status != 200:
        return False
    schemas = server.request("GET", f"/openapi/v3/{place}")
    return schemas.status == 200 and f'"kind":"{names["kind"]}"'.encode() in schemas.body.replace(b": ", b":")


def thing(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def plain(name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Plain", "metadata": {"name": name}, **fields}


def multi(name: str, in_version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{in_version}", "kind": "Multi", "metadata": {"name": name}, "spec": spec}


def multis(in_version: str) -> str:
    return MULTIS.replace("{version}", in_version)
