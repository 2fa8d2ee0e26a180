"""Definitions on both servers: what is refused and how, what becomes of them, what discovery tells of their kinds."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from harness.compare import Seen, differences
from harness.request_cases import (
    TABLE,
    Case,
    Edited,
    apply,
    case,
    cases_of,
    delete,
    get,
    patch,
    post,
    put,
)
from harness.server import Server
from harness.server_pair import ServerPair
from real.custom_kinds import (
    DEFINITIONS,
    GROUP,
    READY_S,
    STRING,
    definition,
    listed,
    of,
    version,
)
from real.definition_cases import COLORED, FRAME, STRANGE, changed, hue

pytestmark = pytest.mark.real


LIVES = [
    case(
        "a definition and its kind come and go",
        post(DEFINITIONS, definition("comes", "Come", version(), group="life.example.com")),
        get(f"{DEFINITIONS}/comes.life.example.com").until_it_holds("/status/conditions/1/status", "True").named("a"),
        get("/apis/life.example.com").until(200),
        get("/apis/life.example.com/v1"),
        get(f"{DEFINITIONS}/comes.life.example.com", TABLE),
        delete(f"{DEFINITIONS}/comes.life.example.com"),
        get(f"{DEFINITIONS}/comes.life.example.com").until(404),
        get("/apis/life.example.com/v1").until(404),
        get("/apis/life.example.com/v1/namespaces/{ns}/comes").until(404),
    ),
    case(
        "names that are taken",
        post(
            DEFINITIONS,
            definition("ones", "One", version(), group="taken.example.com", names={"shortNames": ["o", "n"]}),
        ),
        get(f"{DEFINITIONS}/ones.taken.example.com").until_it_holds("/status/conditions/1/status", "True"),
        post(
            DEFINITIONS,
            definition(
                "twos",
                "One",
                version(),
                group="taken.example.com",
                names={"shortNames": ["o", "n", "t"], "singular": "ones", "listKind": "OneList"},
            ),
        ),
        get(f"{DEFINITIONS}/twos.taken.example.com").until_it_holds("/status/conditions/0/status", "False"),
        delete(f"{DEFINITIONS}/ones.taken.example.com"),
        get(f"{DEFINITIONS}/twos.taken.example.com").until_it_holds("/status/conditions/1/status", "True"),
    ),
    case(
        "objects are selected by fields that came later",
        post(DEFINITIONS, definition("hues", "Hue", version("v1", COLORED), group="hue.example.com")),
        get("/apis/hue.example.com/v1/namespaces/default/hues").until(200),
        post("/apis/hue.example.com/v1/namespaces/default/hues", hue("a", color="blue")),
        post("/apis/hue.example.com/v1/namespaces/default/hues", hue("b")),
        get("/apis/hue.example.com/v1/hues?fieldSelector=spec.color%3Dblue"),
        patch(
            f"{DEFINITIONS}/hues.hue.example.com",
            {"spec": {"versions": [version("v1", COLORED, selectableFields=[{"jsonPath": ".spec.color"}])]}},
        ),
        get("/apis/hue.example.com/v1/hues?fieldSelector=spec.color%3Dblue").until(200),
        get("/apis/hue.example.com/v1/hues?fieldSelector=spec.color!%3Dblue"),
        get("/apis/hue.example.com/v1/hues?fieldSelector=spec.color%3Dred,metadata.name%3Db"),
        delete(f"{DEFINITIONS}/hues.hue.example.com"),
    ),
    case(
        "a definition is changed",
        post(DEFINITIONS, definition("alters", "Alter", version("v1", of(a=STRING)), group="alter.example.com")),
        get(f"{DEFINITIONS}/alters.alter.example.com").until_it_holds("/status/conditions/1/status", "True").named("a"),
        put(
            f"{DEFINITIONS}/alters.alter.example.com",
            Edited(
                "a",
                {
                    "spec": {
                        "versions": [version("v1", of(a=STRING), storage=False), version("v2", of(b=STRING))],
                        "names": {"shortNames": ["al"]},
                    }
                },
            ),
        ).named("b"),
        get(f"{DEFINITIONS}/alters.alter.example.com")
        .until_it_holds("/status/acceptedNames/shortNames/0", "al")
        .named("c"),
        get("/apis/alter.example.com/v2").until_it_holds("/resources/0/shortNames/0", "al"),
        patch(f"{DEFINITIONS}/alters.alter.example.com", {"spec": {"versions": [version("v2", of(b=STRING))]}}),
        patch(f"{DEFINITIONS}/alters.alter.example.com", {"spec": {"scope": "Cluster"}}),
        patch(f"{DEFINITIONS}/alters.alter.example.com", {"spec": {"names": {"kind": "Altered"}}}),
        patch(f"{DEFINITIONS}/alters.alter.example.com", {"spec": {"names": {"plural": "altered"}}}).in_any_order(),
        patch(f"{DEFINITIONS}/alters.alter.example.com", {"spec": {"group": "other.example.com"}}).in_any_order(),
        put(
            f"{DEFINITIONS}/alters.alter.example.com",
            definition("alters", "Alter", version(), group="alter.example.com"),
        ),
        patch(
            f"{DEFINITIONS}/alters.alter.example.com/status",
            {"status": {"storedVersions": ["v2"]}, "spec": {"scope": "Cluster"}},
        ),
        patch(f"{DEFINITIONS}/alters.alter.example.com", {"spec": {"versions": [version("v2", of(b=STRING))]}}),
        get("/apis/alter.example.com/v1").until(404),
        apply(
            f"{DEFINITIONS}/alters.alter.example.com",
            definition("alters", "Alter", version("v2", of(c=STRING)), group="alter.example.com"),
            "applier",
        ),
        apply(
            f"{DEFINITIONS}/alters.alter.example.com",
            definition("alters", "Alter", version("v2", of(c=STRING)), group="alter.example.com"),
            "applier",
            force=True,
        ),
    ),
    case(
        "strange definitions",
        post(DEFINITIONS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}),
        post(DEFINITIONS, {**STRANGE, "spec": {**STRANGE["spec"], "odd": 1}}),
        post(f"{DEFINITIONS}?fieldValidation=Strict", {**STRANGE, "spec": {**STRANGE["spec"], "odd": 1}}),
        post(
            f"{DEFINITIONS}?fieldValidation=Strict&dryRun=All",
            changed(STRANGE, versions=[version("v1", of(a=listed({**STRING, "odd": 1})))]),
        ),
        post(
            f"{DEFINITIONS}?fieldValidation=Strict&dryRun=All",
            changed(STRANGE, versions=[version("v1", of(a={**STRING, "odd": 1}))]),
        ),
    ),
]
TELLING = [
    case(
        "discovery of custom kinds",
        get(f"/apis/{GROUP}"),
        get(f"/apis/{GROUP}/v2"),
        get(f"/apis/{GROUP}/v1alpha1"),
        get(f"/apis/{GROUP}/v9"),
        get("/apis/no.example.com"),
    ),
]
CASES = cases_of(FRAME, LIVES, TELLING)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_definitions_are_answered_the_same(prepared: ServerPair, case: Case) -> None:
    prepared.compare(case)


def told_of(server: Server, name: str) -> dict[str, Any]:
    """A document of schemas; of those that are not the kinds' own the names alone."""
    document = server.request("GET", f"/openapi/v3/apis/{GROUP}/{name}").json()
    schemas = document["components"]["schemas"]
    own = {name: schema for name, schema in schemas.items() if name.startswith("com.example.")}
    return {
        "info": document["info"],
        "paths": without_words(document["paths"]),
        "schemas": own,
        "names": sorted(schemas),
    }


def without_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_words(below)
            for key, below in value.items()
            if key != "description" or not isinstance(below, str)
        }
    return [without_words(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["v1", "v2", "v1beta1"])
def test_the_schemas_and_operations_of_custom_kinds_are_published_the_same(prepared: ServerPair, name: str) -> None:
    def ask(server: Server) -> Seen:
        return Seen(200, {}, told_of(server, name))

    real, ours = prepared.on_each(ask)
    prepared.judge(list(differences(f"the schemas of {GROUP}/{name}", "GET /openapi/v3", real, ours)))


def test_the_condition_of_api_approval_is_the_same(prepared: ServerPair) -> None:
    name, path = "trials.sig.k8s.io", f"{DEFINITIONS}/trials.sig.k8s.io"

    def approved(server: Server) -> dict[str, Any]:
        """The conditions, in any order: three controllers of a real server write them at the same time."""
        deadline_s = time.monotonic() + READY_S
        while True:
            found = server.request("GET", path).json()["status"].get("conditions") or []
            if len(found) == 3 and all(each["status"] == "True" for each in found):
                return {each["type"]: (each["reason"], each["message"]) for each in found}
            assert time.monotonic() < deadline_s, found
            time.sleep(0.1)

    def ask(server: Server) -> dict[str, Any]:
        manifest = {
            **definition("trials", "Trial", version("v1", of()), group="sig.k8s.io"),
            "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "https://example.com/1"}},
        }
        server.request("DELETE", path)
        created = server.request(
            "POST", DEFINITIONS, {"Content-Type": "application/json"}, json.dumps(manifest).encode()
        )
        assert created.status == 201, created
        try:
            return approved(server)
        finally:
            server.request("DELETE", path)

    real, ours = prepared.on_each(ask)
    assert real == ours


def test_aggregated_discovery_lists_custom_kinds(prepared: ServerPair) -> None:
    def ask(server: Server) -> Seen:
        accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
        groups = server.request("GET", "/apis", accept).json()["items"]
        return Seen(200, {}, [group for group in groups if group["metadata"]["name"] == GROUP])

    real, ours = prepared.on_each(ask)
    prepared.judge(list(differences(f"aggregated discovery of {GROUP}", "GET /apis", real, ours)))
