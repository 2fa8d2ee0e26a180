"""Random schemas, random values: both servers prune, default and refuse alike.

One definition has a field for each of many random schemas, so that it is established once; each example is a value for
one of them, sent without being stored.
"""

from __future__ import annotations

import itertools
import json
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.invalid_manifests import spoiled as spoiled_manifests
from harness.request_cases import case, post
from harness.server_pair import ServerPair
from real.custom_kinds import DEFINITIONS, GROUP, definition, of, served, version
from real.random_schemas import draw_schema, spoiled, values

pytestmark = pytest.mark.real

DRAWN = Random(20261115)
SCHEMAS = [draw_schema(DRAWN) for _ in range(80)]
PLACE = f"/apis/{GROUP}/v1/namespaces/{{ns}}/lots?dryRun=All"
FIELDS = {f"f{index}": each for index, each in enumerate(SCHEMAS)}
LOTS = definition("lots", "Lot", version("v1", of(spec=of(**FIELDS))))
SPOILED = [spoiled(DRAWN, of(spec=draw_schema(DRAWN, 2), other=draw_schema(DRAWN, 1))) for _ in range(150)]


@pytest.fixture(scope="module")
def prepared(servers: ServerPair) -> ServerPair:
    def define(server: Any) -> None:
        body = json.dumps(LOTS).encode()
        answer = server.request("POST", DEFINITIONS, {"Content-Type": "application/json"}, body)
        assert answer.status in (201, 409), answer.body
        served(server, LOTS)

    servers.on_each(define)
    return servers


@st.composite
def lots(draw: st.DrawFn) -> dict[str, Any]:
    chosen = draw(st.lists(st.integers(0, len(SCHEMAS) - 1), min_size=1, max_size=4, unique=True))
    return {f"f{index}": draw(values(SCHEMAS[index])) for index in chosen}


@settings(max_examples=400, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(spec=lots())
def test_a_drawn_value_is_taken_or_refused_alike(prepared: ServerPair, spec: dict[str, Any]) -> None:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Lot", "metadata": {"name": "a"}, "spec": spec}
    prepared.compare(case("a drawn lot", post(PLACE, body).in_any_order()))


def test_a_spoiled_schema_is_refused_alike(prepared: ServerPair) -> None:
    trials = (definition("trials", "Trial", version("v1", schema)) for schema in SPOILED)
    steps = [post(f"{DEFINITIONS}?dryRun=All", each).in_any_order() for each in trials]
    prepared.compare(case("spoiled schemas", *steps))


RICH = definition(
    "riches",
    "Rich",
    version(
        "v1",
        of(
            spec={
                **of(
                    size={"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
                    name={"type": "string", "pattern": "^[a-z]+$", "maxLength": 9},
                    set={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    port={"x-kubernetes-int-or-string": True},
                ),
                "required": ["name"],
                "oneOf": [{"required": ["size"]}, {"required": ["port"]}],
            },
            status=of(size={"type": "integer"}),
        ),
        subresources={"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
        additionalPrinterColumns=[{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1}],
        selectableFields=[{"jsonPath": ".spec.name"}],
    ),
    version("v2", of(spec=of(a={"type": "string", "nullable": True})), storage=False, deprecated=True),
    names={"shortNames": ["rc"], "categories": ["all"], "singular": "rich", "listKind": "RichList"},
    conversion={
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://localhost:9443/convert"},
            "conversionReviewVersions": ["v1"],
        },
    },
)


def test_a_spoiled_definition_is_answered_the_same(prepared: ServerPair, request: pytest.FixtureRequest) -> None:
    step = request.config.getoption("--spoiled-step")
    chosen = list(itertools.islice(spoiled_manifests(RICH), 0, None, step))
    place = f"{DEFINITIONS}?dryRun=All"
    prepared.compare(case("spoiled definitions", *(post(place, each).in_any_order() for _, each in chosen)))
