"""PUT, and POST with its parameters: dry runs, field validation, managers, revisions, generations, odd bodies."""

from __future__ import annotations

from typing import Any

import pytest

from harness.objects import CONFIG_MAPS, CORE, DEPLOYMENTS, PODS, config_map, deployment, gated, pod
from harness.request_cases import Case, Edited, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
MADE = post(CONFIG_MAPS, config_map("made", labels={"a": "b"})).named("made")
UNKNOWN_POD_FIELD = {**pod("p"), "spec": {**pod("p")["spec"], "schedulinggates": [{"name": "x"}]}}
DUPLICATE_KEYS = (
    '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"twice","name":"again"},"data":{"a":"1","a":"2"}}'
)


def nameless(**metadata: object) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


ODD_SPECS: list[dict[str, Any]] = [
    {"containers": {}},
    {"hostNetwork": "yes"},
    {"terminationGracePeriodSeconds": "5"},
    {"terminationGracePeriodSeconds": 1.5},
    {"nodeSelector": []},
    {"schedulingGates": {"name": "x"}},
    {"schedulingGates": ["x"]},
    {"priority": 99999999999},
]
PARAMETERS = [
    case(
        "a dry run creates nothing",
        post(f"{CONFIG_MAPS}?dryRun=All", config_map("x")),
        get(f"{CONFIG_MAPS}/x"),
        get(CONFIG_MAPS),
    ),
    case(
        "a dry run of an update",
        MADE,
        put(f"{CONFIG_MAPS}/made?dryRun=All", Edited("made", {"data": {"k": "2"}})),
        get(f"{CONFIG_MAPS}/made"),
    ),
    case(
        "a dry run says what is wrong",
        post(f"{PODS}?dryRun=All", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}).in_any_order(),
    ),
    *(
        case(
            f"dryRun is {value or 'empty'}",
            post(f"{CONFIG_MAPS}?dryRun={value}", config_map("x")),
            get(f"{CONFIG_MAPS}/x"),
        )
        for value in ("", "all", "None", "true", "All&dryRun=All", "All&dryRun=Odd")
    ),
    *(
        case(f"fieldManager is {label}", post(f"{CONFIG_MAPS}?fieldManager={value}", config_map("x")))
        for label, value in {
            "plain": "me",
            "empty": "",
            "of 128": "m" * 128,
            "of 129": "m" * 129,
            "not printable": "a%07b",
            "with blanks": "a%20b",
            "given twice": "a&fieldManager=b",
        }.items()
    ),
    *(
        case(f"the manager of {agent}", post(CONFIG_MAPS, config_map("x"), User_Agent=value))
        for agent, value in {
            "kubectl": "kubectl/v1.35.8 (linux/amd64) kubernetes/abc",
            "a browser": "Mozilla/5.0 (X11)",
            "a long agent": "z" * 200,
            "an agent with odd signs": "a\tb/1",
        }.items()
    ),
    *(
        case(
            f"unknown fields under {mode or 'no'} validation",
            post(f"{PODS}?fieldValidation={mode}", UNKNOWN_POD_FIELD),
            post(
                f"{CONFIG_MAPS}?fieldValidation={mode}",
                {**config_map("x"), "odd": 1, "metadata": {"name": "x", "odder": {"a": 1}}},
            ),
            post(
                f"{DEPLOYMENTS}?fieldValidation={mode}",
                deployment(
                    "d",
                    template={
                        "metadata": {"labels": {"app": "a"}},
                        "spec": {
                            "containers": [
                                {"name": "c", "image": "i", "odd": 1, "ports": [{"containerPort": 1, "x": 2}]}
                            ]
                        },
                    },
                ),
            ),
        )
        for mode in ("Strict", "Warn", "Ignore", "", "strict", "Odd")
    ),
    *(
        case(f"duplicate fields under {mode} validation", post(f"{CONFIG_MAPS}?fieldValidation={mode}", DUPLICATE_KEYS))
        for mode in ("Strict", "Warn", "Ignore")
    ),
    *(
        case(
            f"case-insensitive fields under {mode} validation",
            post(
                f"{CONFIG_MAPS}?fieldValidation={mode}",
                '{"apiVersion":"v1","kind":"ConfigMap","Metadata":{"name":"x"},"metadata":{"name":"y"},"DATA":{"a":"b"}}',
            ),
        )
        for mode in ("Strict", "Warn")
    ),
    case(
        "unknown fields in an update",
        MADE,
        put(f"{CONFIG_MAPS}/made?fieldValidation=Strict", Edited("made", {"odd": 1})),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"odd": 1, "data": {"n": "1"}})),
    ),
]
UPDATES = [
    *(
        case(
            f"what is gone is not made again by an update that knows its uid: {kind}",
            put(f"{path}/gone", {**body, "metadata": {"name": "gone", "uid": "11111111-1111-1111-1111-111111111111"}}),
            get(f"{path}/gone"),
            put(f"{path}/gone", {**body, "metadata": {"name": "gone", "resourceVersion": "7"}}),
        )
        for kind, path, body in (
            ("Lease", LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}),
            ("LimitRange", f"{CORE}/limitranges", {"apiVersion": "v1", "kind": "LimitRange"}),
            ("ConfigMap", CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap"}),
        )
    ),
    case(
        "an update",
        MADE,
        put(f"{CONFIG_MAPS}/made?fieldManager=second", Edited("made", {"data": {"k": "2"}})),
        get(f"{CONFIG_MAPS}/made"),
    ),
    case(
        "an update that changes nothing",
        MADE,
        put(f"{CONFIG_MAPS}/made", Edited("made")),
        put(f"{CONFIG_MAPS}/made", Edited("made")),
    ),
    case(
        "an update at a stale revision",
        MADE,
        patch(f"{CONFIG_MAPS}/made", {"data": {"x": "1"}}),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"data": {"k": "2"}})),
    ),
    case(
        "an update at no revision",
        MADE,
        put(f"{CONFIG_MAPS}/made", config_map("made", {"k": "2"})),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"resourceVersion": "0"}})),
    ),
    case(
        "an update at a bad revision",
        MADE,
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"resourceVersion": "abc"}})),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"resourceVersion": "99999999"}})),
    ),
    case(
        "an update with another uid",
        MADE,
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})),
        put(
            f"{CONFIG_MAPS}/made",
            Edited("made", {"metadata": {"uid": None, "resourceVersion": None}, "data": {"z": "1"}}),
        ),
    ),
    case(
        "an update of what a client may not change",
        MADE,
        put(
            f"{CONFIG_MAPS}/made",
            Edited(
                "made",
                {
                    "metadata": {
                        "creationTimestamp": "2020-01-01T00:00:00Z",
                        "generation": 4,
                        "selfLink": "/x",
                        "deletionTimestamp": "2020-01-01T00:00:00Z",
                    }
                },
            ),
        ),
    ),
    case(
        "an update with another name",
        MADE,
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"name": "other"}})),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"name": None}})),
    ),
    case(
        "an update with another namespace",
        MADE,
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"namespace": "other"}})),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"namespace": None}})),
    ),
    case(
        "an update of another kind",
        MADE,
        put(f"{CONFIG_MAPS}/made", Edited("made", {"kind": "Secret"})),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"apiVersion": "v2"})),
        put(f"{CONFIG_MAPS}/made", Edited("made", {"kind": None, "apiVersion": None})),
    ),
    case(
        "an update of what is not there",
        put(f"{CONFIG_MAPS}/none", config_map("none")),
        put(f"{PODS}/none", pod("none")),
    ),
    case(
        "an update that takes the managed fields away",
        MADE,
        put(f"{CONFIG_MAPS}/made", Edited("made", {"metadata": {"managedFields": []}})),
        put(
            f"{CONFIG_MAPS}/made",
            Edited("made", {"metadata": {"managedFields": None, "resourceVersion": None}, "data": {"q": "1"}}),
        ),
    ),
    case(
        "an immutable config map",
        post(CONFIG_MAPS, {**config_map("x"), "immutable": True}).named("x"),
        put(f"{CONFIG_MAPS}/x", Edited("x", {"data": {"k": "2"}})),
        patch(f"{CONFIG_MAPS}/x", {"immutable": False}),
        patch(f"{CONFIG_MAPS}/x", {"metadata": {"labels": {"a": "b"}}}),
    ),
    case(
        "the generation follows the spec alone",
        post(DEPLOYMENTS, deployment("d")).named("d"),
        patch(f"{DEPLOYMENTS}/d", {"metadata": {"labels": {"a": "b"}}}),
        patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 3}}),
        patch(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 1}}),
        put(f"{DEPLOYMENTS}/d", Edited("d", {"metadata": {"resourceVersion": None}})),
    ),
    case(
        "the generation of a pod",
        post(PODS, gated("p", "a", "b")).named("p"),
        patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "b"}]}}),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}),
    ),
    case(
        "an update during deletion",
        post(CONFIG_MAPS, nameless(name="x", finalizers=["example.com/f"])).named("x"),
        delete(f"{CONFIG_MAPS}/x").named("gone"),
        put(f"{CONFIG_MAPS}/x", Edited("gone", {"data": {"a": "1"}})),
        patch(f"{CONFIG_MAPS}/x", {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}),
        patch(f"{CONFIG_MAPS}/x", {"metadata": {"finalizers": None}}),
        get(f"{CONFIG_MAPS}/x"),
    ),
    case(
        "put where only the collection is", put(CONFIG_MAPS, config_map("x")), post(f"{CONFIG_MAPS}/x", config_map("x"))
    ),
]
BODIES = [
    case(
        "a yaml body",
        post(
            CONFIG_MAPS,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata:\n  a: '1'\n",
            Content_Type="application/yaml",
        ),
    ),
    case(
        "a yaml update",
        MADE,
        put(
            f"{CONFIG_MAPS}/made",
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: made\ndata: {a: b}\n",
            Content_Type="application/yaml",
        ),
    ),
    case(
        "a yaml body with unknown and duplicate fields",
        *(
            post(
                f"{CONFIG_MAPS}?fieldValidation={mode}",
                f"kind: ConfigMap\nmetadata: {{name: y{mode.lower()}}}\nodd: 1\ndata: {{a: '1', a: '2'}}\n",
                Content_Type="application/yaml",
            )
            for mode in ("Strict", "Warn")
        ),
    ),
    case(
        "a yaml body with typed scalars",
        post(
            CONFIG_MAPS,
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: y}\ndata: {a: 1, b: yes, c: 1.5}\n",
            Content_Type="application/yaml",
        ),
    ),
    case(
        "kind and version left out",
        post(CONFIG_MAPS, {"metadata": {"name": "x"}}),
        post(PODS, {"metadata": {"name": "x"}, "spec": pod("x")["spec"]}),
    ),
    case(
        "null where a value may be",
        post(CONFIG_MAPS, {**config_map("x"), "data": None, "binaryData": None, "immutable": None}),
        post(PODS, {**pod("x"), "status": None}),
        post(PODS, {**pod("y"), "spec": None}).in_any_order(),
    ),
    case(
        "wrong types in a body",
        *(
            post(CONFIG_MAPS, {**config_map("x"), "data": data})
            for data in (1, "a", ["a"], {"a": 1}, {"a": ["b"]}, True, {"a": None})
        ),
    ),
    case(
        "wrong types in a pod",
        *(post(PODS, pod("x", **spec)) for spec in ODD_SPECS),
    ),
    case(
        "odd quantities",
        *(
            post(
                f"{PODS}?dryRun=All",
                pod("x", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": value}}}]),
            )
            for value in (
                "1",
                1,
                1.5,
                "0.1",
                "100m",
                "1e3",
                "1E3",
                "0",
                "-1",
                "abc",
                "",
                "1 ",
                "1.5Gi",
                "1k",
                "1K",
                "0.0001",
                "1n",
                "9999999999999999999",
                True,
                None,
            )
        ),
    ),
    case(
        "odd times",
        *(
            post(
                f"{CORE}/events?dryRun=All",
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": "e"},
                    "involvedObject": {"namespace": "{ns}"},
                    "firstTimestamp": value,
                },
            )
            for value in (
                "2020-01-01T00:00:00Z",
                "2020-01-01T00:00:00.5Z",
                "2020-01-01T01:00:00+01:00",
                "2020-01-01",
                "",
                None,
                5,
                "now",
            )
        ),
    ),
]
CASES = cases_of(PARAMETERS, UPDATES, BODIES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_writes_are_answered_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
