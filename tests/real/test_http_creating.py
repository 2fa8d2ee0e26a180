"""POST: names that are given, generated and refused, and the metadata that a client may set."""

from __future__ import annotations

import pytest

from harness.objects import CONFIG_MAPS, CORE, PODS, config_map, pod
from harness.request_cases import Case, case, cases_of, get, post
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

MADE = post(CONFIG_MAPS, config_map("made", labels={"a": "b"})).named("made")
UNKNOWN_POD_FIELD = {**pod("p"), "spec": {**pod("p")["spec"], "schedulinggates": [{"name": "x"}]}}
DUPLICATE_KEYS = (
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice","name":"again"},"data":{"a":"1","a":"2"}}'
)


def nameless(**metadata: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


NAMES = [
    case(
        "a generated name",
        post(CONFIG_MAPS, nameless(generateName="gen-")).named("g"),
        get(f"{CONFIG_MAPS}/${{g:/metadata/name}}"),
    ),
    case("a generated name beside a name", post(CONFIG_MAPS, nameless(generateName="gen-", name="own"))),
    case(
        "a long generated name is cut",
        post(CONFIG_MAPS, nameless(generateName="x" * 70 + "-")),
        post(PODS, {**pod("x"), "metadata": {"generateName": "y" * 250}}),
    ),
    case(
        "a bad generated name",
        post(CONFIG_MAPS, nameless(generateName="Bad_")),
        post(CONFIG_MAPS, nameless(generateName="-")),
    ),
    case("a generated name in a dry run", post(f"{CONFIG_MAPS}?dryRun=All", nameless(generateName="gen-"))),
    case(
        "neither name nor generateName",
        post(CONFIG_MAPS, nameless()),
        post(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap"}),
    ),
    *(
        case(
            f"the name {label}",
            post(CONFIG_MAPS, config_map(name)),
            post(PODS, pod(name)),
            post(
                f"{CORE}/services",
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 1}]}},
            ),
        )
        for label, name in {
            "in capitals": "UPPER",
            "with dots": "a.b.c",
            "with a slash": "a/b",
            "of dots": "..",
            "with a blank": "a b",
            "of 63": "x" * 63,
            "of 64": "x" * 64,
            "of 253": "x" * 253,
            "of 254": "x" * 254,
            "with a percent": "a%b",
            "of digits": "123",
            "with a leading dash": "-a",
            "with an underscore": "a_b",
            "beyond ASCII": "ä",
            "with a newline": "a\nb",
            "empty": "",
        }.items()
    ),
    case("the same name twice", MADE, MADE),
    case(
        "another namespace in the body",
        post(CONFIG_MAPS, {**config_map("x"), "metadata": {"name": "x", "namespace": "other"}}),
    ),
    case(
        "the namespace in the body",
        post(CONFIG_MAPS, {**config_map("x"), "metadata": {"name": "x", "namespace": "{ns}"}}),
    ),
    case(
        "a namespace that does not exist",
        post("/api/v1/namespaces/nope/configmaps", config_map("x")),
        post("/api/v1/namespaces/nope/pods?dryRun=All", pod("x")),
    ),
    case("no namespace in the path", post("/api/v1/configmaps", config_map("x")), post("/api/v1/pods", pod("x"))),
]
METADATA_FIELDS = [
    case(
        "what a client may not set on creation",
        post(
            CONFIG_MAPS,
            nameless(
                name="x",
                uid="11111111-2222-3333-4444-555555555555",
                resourceVersion="",
                generation=7,
                selfLink="/x",
                creationTimestamp="2020-01-01T00:00:00Z",
                deletionTimestamp="2020-01-01T00:00:00Z",
                deletionGracePeriodSeconds=9,
            ),
        ),
    ),
    case("a revision on creation", post(CONFIG_MAPS, nameless(name="x", resourceVersion="5"))),
    case(
        "a revision on creation that does not matter",
        MADE,
        post(f"{CONFIG_MAPS}?dryRun=All", nameless(name="x", resourceVersion="5")),
        post(f"{CONFIG_MAPS}?dryRun=All", nameless(name="made", resourceVersion="5")),
        post(CONFIG_MAPS, nameless(name="made", resourceVersion="5")),
        post(CONFIG_MAPS, nameless(name="x", resourceVersion="text")),
        post(CONFIG_MAPS, nameless(name="y", resourceVersion="00")),
        post(CONFIG_MAPS, nameless(name="z", resourceVersion="9" * 5000)),
        get(f"{CONFIG_MAPS}?resourceVersion={'9' * 5000}"),
    ),
    case(
        "managed fields on creation",
        post(
            CONFIG_MAPS,
            nameless(
                name="x",
                managedFields=[
                    {
                        "manager": "m",
                        "operation": "Update",
                        "apiVersion": "v1",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {"f:data": {}},
                    }
                ],
            ),
        ),
        post(CONFIG_MAPS, nameless(name="y", managedFields=[{"manager": "m", "operation": "Odd"}])),
    ),
    *(
        case(f"bad labels: {name}", post(CONFIG_MAPS, nameless(name="x", labels=labels)))
        for name, labels in {
            "a blank": {"a b": "c"},
            "a long value": {"a": "x" * 64},
            "an empty key": {"": "x"},
            "two slashes": {"a/b/c": "d"},
            "a number": {"a": 1},
            "null": {"a": None},
            "a list": ["a"],
            "a bad value": {"a": "-"},
            "a boolean": {"a": True},
        }.items()
    ),
    case(
        "bad annotations",
        post(CONFIG_MAPS, nameless(name="x", annotations={"A B": "c"})),
        post(CONFIG_MAPS, nameless(name="y", annotations={"a": "x" * 262145})),
    ),
    case(
        "finalizers",
        post(CONFIG_MAPS, nameless(name="x", finalizers=["plain"])),
        post(CONFIG_MAPS, nameless(name="y", finalizers=["a b"])),
        post(CONFIG_MAPS, nameless(name="z", finalizers=["example.com/f", "orphan"])),
    ),
    *(
        case(f"owner references: {name}", post(CONFIG_MAPS, nameless(name="x", ownerReferences=references)))
        for name, references in {
            "a good one": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
            "nothing in it": [{}],
            "two controllers": [
                {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in "ab"
            ],
            "twice the same": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}] * 2,
            "an event": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}],
            "a bad version": [{"apiVersion": "a/b/c", "kind": "Pod", "name": "p", "uid": "u"}],
        }.items()
    ),
]
CASES = cases_of(NAMES, METADATA_FIELDS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_creations_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
