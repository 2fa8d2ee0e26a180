"""PATCH, by hand: the four types, their errors, managers, conflicts. `test_patch_differential.py` draws many more."""

from __future__ import annotations

import pytest

from harness.objects import CONFIG_MAPS, PODS, config_map, gated
from harness.request_cases import Case, case, cases_of, get, patch, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

ME = f"{CONFIG_MAPS}/me"
MADE = post(f"{CONFIG_MAPS}?fieldManager=maker", config_map("me", {"a": "1", "b": "2"}, {"x": "y"})).named("me")


def json_patch(name: str, *operations: object) -> Case:
    return case(f"json patch: {name}", MADE, *(patch(ME, each, "json") for each in operations), get(ME))


JSON_PATCHES = [
    json_patch(
        "add, replace, remove",
        [
            {"op": "add", "path": "/data/c", "value": "3"},
            {"op": "replace", "path": "/data/a", "value": "9"},
            {"op": "remove", "path": "/data/b"},
        ],
    ),
    json_patch(
        "move and copy",
        [{"op": "move", "from": "/data/a", "path": "/data/z"}, {"op": "copy", "from": "/data/b", "path": "/data/y"}],
    ),
    json_patch(
        "a test that holds",
        [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "add", "path": "/data/t", "value": "ok"}],
    ),
    json_patch(
        "a test that fails",
        [{"op": "test", "path": "/data/a", "value": "2"}, {"op": "add", "path": "/data/t", "value": "no"}],
    ),
    json_patch(
        "a test of the revision",
        [
            {"op": "test", "path": "/metadata/resourceVersion", "value": "${me:/metadata/resourceVersion}"},
            {"op": "add", "path": "/data/t", "value": "ok"},
        ],
    ),
    json_patch(
        "a test of the uid",
        [{"op": "test", "path": "/metadata/uid", "value": "${me:/metadata/uid}"}],
        [{"op": "test", "path": "/metadata/uid", "value": "other"}],
    ),
    json_patch(
        "paths that lead nowhere",
        [{"op": "remove", "path": "/data/none"}],
        [{"op": "replace", "path": "/none/a", "value": 1}],
        [{"op": "add", "path": "/none/a", "value": "1"}],
        [{"op": "test", "path": "/data/none", "value": None}],
    ),
    json_patch(
        "escaped paths",
        [
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/example.com~1n", "value": "1"},
            {"op": "add", "path": "/metadata/annotations/a~0b", "value": "2"},
        ],
        [{"op": "add", "path": "/metadata/annotations/example.com~1m", "value": "~"}],
    ),
    json_patch(
        "what is no operation",
        [{"op": "odd", "path": "/data/a"}],
        [{"path": "/data/a"}],
        [{"op": "add"}],
        [{"op": "add", "path": "data/a", "value": "1"}],
        ["x"],
        [{"op": "add", "path": "/data/a"}],
    ),
    json_patch("an empty list", [], [{"op": "replace", "path": "/data/a", "value": "1"}]),
    json_patch(
        "the whole document",
        [
            {
                "op": "replace",
                "path": "",
                "value": {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "me", "namespace": "{ns}"},
                    "data": {"w": "1"},
                },
            }
        ],
    ),
    json_patch("not a list", {"op": "add"}, "x", {"data": {"a": "1"}}, "[", "null"),
    json_patch(
        "a wrong type",
        [{"op": "add", "path": "/data/n", "value": 1}],
        [{"op": "replace", "path": "/data", "value": []}],
    ),
    json_patch(
        "what may not change",
        [{"op": "replace", "path": "/metadata/name", "value": "other"}],
        [{"op": "replace", "path": "/metadata/uid", "value": "other"}],
        [{"op": "replace", "path": "/kind", "value": "Secret"}],
        [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}],
    ),
    case(
        "json patch: list indexes",
        post(PODS, gated("p", "a", "b", "c")),
        patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/schedulingGates/1"}], "json"),
        patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/schedulingGates/9"}], "json"),
        patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/schedulingGates/-1"}], "json"),
        patch(f"{PODS}/p", [{"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": "d"}}], "json"),
        patch(
            f"{PODS}/p",
            [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "k", "operator": "Exists"}}],
            "json",
        ),
        patch(f"{PODS}/p", [{"op": "test", "path": "/spec/schedulingGates/0", "value": {"name": "a"}}], "json"),
        patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/schedulingGates"}], "json"),
        patch(f"{PODS}/p", [{"op": "remove", "path": "/spec/schedulingGates"}], "json"),
    ),
    case(
        "json patch: very many operations",
        MADE,
        patch(ME, [{"op": "add", "path": "/data/a", "value": "1"}] * 10001, "json"),
    ),
]
MERGE_PATCHES = [
    case("merge patch: set, add, drop", MADE, patch(ME, {"data": {"a": "9", "b": None, "c": "3"}}), get(ME)),
    case(
        "merge patch: null for a whole map", MADE, patch(ME, {"data": None}), patch(ME, {"metadata": {"labels": None}})
    ),
    *(
        case(
            f"{how} patch: {body} is no object",
            MADE,
            *(patch(f"{ME}?fieldValidation={strictness}", body, how) for strictness in ("Ignore", "Warn", "Strict")),
            patch(ME, body, how),
            get(ME),
        )
        for how in ("merge", "strategic")
        for body in ("[]", "[1,null]", "1", '"text"', "true", "null", '[{"kind":"ConfigMap"}]')
    ),
    case("merge patch: nothing", MADE, patch(ME, {}), patch(ME, {"data": {}}), patch(ME, {"data": {"none": None}})),
    case(
        "merge patch: unknown fields",
        *(
            [MADE]
            + [
                patch(f"{ME}?fieldValidation={mode}", {"odd": 1, "data": {"m": mode}})
                for mode in ("Strict", "Warn", "Ignore")
            ]
        ),
    ),
    case(
        "merge patch: duplicate fields",
        MADE,
        *(patch(f"{ME}?fieldValidation={mode}", '{"data":{"a":"1","a":"2"}}') for mode in ("Strict", "Warn")),
    ),
    case(
        "merge patch: what is no object",
        MADE,
        *(patch(ME, body) for body in ("[]", "1", '"x"', "null", "", "{", "true")),
    ),
    case(
        "merge patch: wrong types",
        MADE,
        patch(ME, {"data": {"a": 1}}),
        patch(ME, {"data": "x"}),
        patch(ME, {"metadata": []}),
    ),
    case(
        "merge patch: what may not change",
        MADE,
        *(
            patch(ME, {"metadata": {key: value}})
            for key, value in (
                ("name", "other"),
                ("namespace", "other"),
                ("uid", "11111111-2222-3333-4444-555555555555"),
                ("resourceVersion", "1"),
                ("creationTimestamp", "2020-01-01T00:00:00Z"),
                ("generation", 4),
            )
        ),
        patch(ME, {"kind": "Secret"}),
        patch(ME, {"apiVersion": "v2"}),
    ),
    case(
        "merge patch: at the known revision and a stale one",
        MADE,
        patch(ME, {"metadata": {"resourceVersion": "${me:/metadata/resourceVersion}"}, "data": {"q": "1"}}),
        patch(ME, {"metadata": {"resourceVersion": "${me:/metadata/resourceVersion}"}, "data": {"q": "2"}}),
    ),
    case(
        "merge patch: with the right uid",
        MADE,
        patch(ME, {"metadata": {"uid": "${me:/metadata/uid}"}, "data": {"u": "1"}}),
    ),
    case("merge patch: a dry run", MADE, patch(f"{ME}?dryRun=All", {"data": {"a": "9"}}), get(ME)),
    case(
        "merge patch: of what is not there",
        patch(f"{CONFIG_MAPS}/none", {"data": {"a": "1"}}),
        patch(CONFIG_MAPS, {"data": {}}),
    ),
    case(
        "merge patch: force is for apply",
        MADE,
        patch(f"{ME}?force=true", {"data": {"a": "1"}}),
        patch(f"{ME}?fieldManager=", {"data": {"a": "3"}}),
        patch(f"{ME}?fieldManager=" + "x" * 200, {"data": {"a": "4"}}),
    ),
    case("merge patch: in yaml", MADE, patch(ME, "data: {a: '5'}", "application/merge-patch+yaml")),
]
CONTENT_TYPES = [
    case(f"a patch sent as {kind}", MADE, patch(ME, {"data": {"a": "9"}}, kind))
    for kind in (
        "application/json",
        "text/plain",
        "application/odd+json",
        "application/merge-patch+json;charset=utf-8",
        "application/strategic-merge-patch+json;odd=1",
        "application/apply-patch+cbor",
        "application/yaml",
        "nonsense",
    )
]
CASES = cases_of(JSON_PATCHES, MERGE_PATCHES, CONTENT_TYPES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_patches_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
