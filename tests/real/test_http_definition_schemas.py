"""Schemas that a definition may not have, on both servers: what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from harness.request_cases import (
    Case,
    Step,
    case,
    cases_of,
)
from harness.server_pair import ServerPair
from real.custom_kinds import (
    INTEGER,
    STRING,
    definition,
    listed,
    of,
    refused,
    version,
)

pytestmark = pytest.mark.real


def with_schema(*schemas: Any, **more: Any) -> list[Step]:
    """Definitions of one version, that differ in their schema."""
    return refused(*(definition("trials", "Trial", version("v1", each, **more)) for each in schemas))


def with_field(*schemas: Any) -> list[Step]:
    return with_schema(*(of(spec=of(field=each)) for each in schemas))


SCHEMAS = [
    case(
        "types of a schema",
        *with_schema({}, {"type": "string"}, {"type": "object", "nullable": True}, of(spec={}), of(a={"type": "odd"})),
        *with_schema(
            of(a={"type": "null"}), of(a={"type": "array"}), of(a=listed({})), of(a={"type": "array", "items": []})
        ),
        *with_schema(
            of(a={"type": "array", "items": [STRING, INTEGER]}), {"type": "object", "additionalProperties": STRING}
        ),
    ),
    case(
        "words that a schema may not use",
        *with_field(
            {**STRING, "$ref": "#/x"},
            {**STRING, "id": "x"},
            {**STRING, "$schema": "http://x"},
            {**of(), "definitions": {"a": STRING}},
            {**of(), "patternProperties": {"a": STRING}},
            {**of(), "dependencies": {"a": ["b"]}},
            {**listed(STRING), "additionalItems": False},
            {**listed(STRING), "uniqueItems": True},
            {**of(a=STRING), "additionalProperties": STRING},
            {**of(a=STRING), "additionalProperties": False},
            {**of(a=STRING), "additionalProperties": True},
            {**STRING, "pattern": "("},
            {**STRING, "pattern": "(?=a)"},
            {**STRING, "pattern": "a{1001}"},
            {**STRING, "pattern": r"\1"},
            {**STRING, "format": "odd"},
        ),
    ),
    case(
        "values of a wrong type in nested schemas",
        *with_field(
            {"type": 1},
            listed({"type": 1}),
            listed(listed({"type": 1})),
            {"type": "array", "items": 5},
            {"type": "array", "items": [5]},
            {"type": "array", "items": [STRING, {"type": 1}]},
            {"type": "object", "additionalProperties": {"type": 1}},
            {"type": "object", "additionalProperties": of(a={"minLength": "x"})},
            {"type": "object", "additionalProperties": 5},
            {**of(), "not": {"items": {"enum": 3}}},
            {**of(), "allOf": [{"items": {"properties": {"a": listed({"required": "a"})}}}]},
            {**of(), "x-kubernetes-validations": [{"rule": 1}]},
        ),
    ),
    case(
        "extensions of a schema",
        *with_field(
            {**of(), "x-kubernetes-preserve-unknown-fields": False},
            {"x-kubernetes-int-or-string": True, "type": "string"},
            {"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}]},
            {"x-kubernetes-embedded-resource": True},
            {**STRING, "x-kubernetes-embedded-resource": True},
            {**of(), "x-kubernetes-embedded-resource": True},
            {**of(kind=INTEGER, metadata=STRING), "x-kubernetes-embedded-resource": True},
            {"type": "object", "additionalProperties": STRING, "x-kubernetes-embedded-resource": True},
            {**STRING, "x-kubernetes-map-type": "atomic"},
            {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic"},
            {**of(), "x-kubernetes-map-type": "odd"},
        ),
    ),
    case(
        "list types of a schema",
        *with_field(
            {**STRING, "x-kubernetes-list-type": "set"},
            {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-list-type": "set"},
            listed(STRING, **{"x-kubernetes-list-type": "odd"}),
            listed(of(a=STRING), **{"x-kubernetes-list-type": "set"}),
            listed(listed(STRING, **{"x-kubernetes-list-type": "set"}), **{"x-kubernetes-list-type": "set"}),
            listed({**STRING, "nullable": True}, **{"x-kubernetes-list-type": "set"}),
            listed(STRING, **{"x-kubernetes-list-map-keys": ["a"]}),
            listed(STRING, **{"x-kubernetes-list-type": "set", "x-kubernetes-list-map-keys": ["a"]}),
            listed(STRING, **{"x-kubernetes-list-type": "map"}),
            listed(of(a=STRING), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
            listed(of(a=STRING), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "b"]}),
            listed(
                {**of(a=of()), "required": ["a"]},
                **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
            ),
            listed(
                {**of(a={**STRING, "nullable": True}), "required": ["a"], "nullable": True},
                **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
            ),
        ),
    ),
    case(
        "logic in a schema",
        *with_field(
            {**STRING, "anyOf": [{"type": "string"}]},
            {**STRING, "allOf": [{"description": "x", "title": "y", "default": "z", "nullable": True}]},
            {**of(), "oneOf": [{"properties": {"a": {"minLength": 1}}}]},
            {**of(), "not": {"additionalProperties": {"minLength": 1}}},
            {**of(a=STRING), "not": {"properties": {"a": {"pattern": "["}}}},
            {**STRING, "not": {"x-kubernetes-int-or-string": True, "x-kubernetes-list-type": "set"}},
        ),
        *with_schema(
            {**of(spec=of()), "anyOf": [{"properties": {"spec": {"properties": {"a": {"minLength": 1}}}}}]},
            {**of(spec=of()), "anyOf": [{"properties": {"metadata": {"required": ["a"]}}}]},
            {**of(spec=of()), "allOf": [{"items": {"minLength": 1}}]},
        ),
    ),
    case(
        "metadata in a schema",
        *with_schema(
            of(metadata=of(name={**STRING, "maxLength": 5})),
            of(metadata=of(labels=of())),
            of(metadata={"type": "object", "description": "x"}),
            of(metadata=STRING, kind=INTEGER, apiVersion=INTEGER),
            of(metadata=of(name={**STRING, "default": "x"})),
            of(metadata={"type": "object", "default": {}}, kind={**STRING, "default": "x"}),
        ),
    ),
    case(
        "defaults in a schema",
        *with_field(
            {**STRING, "default": 1},
            {**STRING, "default": "x", "enum": ["y"]},
            {**of(a=STRING), "default": {"b": 1}},
            {**of(a={**INTEGER, "minimum": 5}), "default": {"a": 1}},
            {**listed(STRING), "default": ["a", 1]},
            {"type": "object", "additionalProperties": {**STRING, "default": 1}},
            {**STRING, "default": None},
            {"x-kubernetes-int-or-string": True, "default": 1},
            {
                **of(),
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "default": {"kind": "X"},
            },
            {
                **of(metadata=of(labels={"type": "object", "additionalProperties": STRING, "default": {"a b": "c"}})),
                "x-kubernetes-embedded-resource": True,
            },
        ),
    ),
    case(
        "a root beside a status",
        *with_schema(
            {**of(), "oneOf": [{"required": ["spec"]}]},
            {**of(), "minProperties": 1},
            {**of(), "enum": [{}]},
            {**of(), "required": ["spec"], "description": "x"},
            {"type": "array", "items": STRING},
            {**of(), "x-kubernetes-preserve-unknown-fields": True},
            {**of(), "x-kubernetes-embedded-resource": True},
            subresources={"status": {}},
        ),
    ),
    case(
        "rules in a schema",
        *with_field(
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": " "}]},
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": "true", "message": " "}]},
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]},
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": "true\n&& true"}]},
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": "true", "messageExpression": " "}]},
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": "true", "reason": "Odd"}]},
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".b"}]},
            {**of(a=STRING), "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".a", "message": "x"}]},
        ),
    ),
    case(
        "schemas of several versions",
        *refused(
            definition("trials", "Trial", version("v1", of(a={})), version("v2", of(a={}), storage=False)),
            definition("trials", "Trial", version("v1", of(a={})), version("v2", of(b={}), storage=False)),
            definition(
                "trials",
                "Trial",
                version(
                    "v1", of(a=STRING), additionalPrinterColumns=[{"name": "", "type": "string", "jsonPath": ".a"}]
                ),
                version("v2", of(a=STRING), storage=False, subresources={"scale": {"specReplicasPath": "x"}}),
            ),
            definition(
                "trials",
                "Trial",
                version("v1", of(a=STRING), selectableFields=[{"jsonPath": ".b"}]),
                version("v2", of(b=STRING), storage=False, selectableFields=[{"jsonPath": ".b"}]),
            ),
        ),
    ),
]
CASES = cases_of(SCHEMAS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_schemas_of_definitions_are_judged_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
