"""Bodies in protobuf, as typed Go clients send them: every kind, the options, and all the ways in which bytes are bad.

The manifests are those of `harness/manifests/`, encoded by `harness/protobuf.py`; damaged bytes are made by hand.
"""

from __future__ import annotations

import pytest

from harness.manifests import KINDS, Kind
from harness.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, pod
from harness.protobuf import MAGIC, PROTOBUF, envelope, number, octets, protobuf
from harness.request_cases import AnyStep, Case, Edited, Step, case, cases_of, delete, get, patch, post, put
from harness.server_pair import ServerPair
from real.protobuf_bodies import (
    BINDING,
    BODIES,
    CRDS,
    DEBUGGER,
    DEFINITION,
    DEPLOYMENT,
    EVENT,
    EVICTION,
    GOOD,
    IN_BYTES,
    LOCAL_REVIEW,
    NAMESPACE,
    PODS_IN_BYTES,
    POLICY,
    RESIZED,
    REVIEW,
    REVIEW_OF_ANOTHER,
    REVISION,
    REVISIONS,
    SCALE,
    THING,
    THINGS,
    TIMES,
    TOKEN_REQUEST,
    TOKEN_REVIEW,
    a_pod_deleted_at,
)

pytestmark = pytest.mark.real


def sent(step: Step) -> Step:
    """The same step with its body in protobuf."""
    return Step(step.method, step.path, step.body, {**step.headers, "Content-Type": PROTOBUF}, step.save)


def life(kind: Kind) -> list[AnyStep]:
    """Created, replaced, its status written and deleted without a byte of JSON going in."""
    small, rich = kind.path("small"), kind.path("rich")
    status = [sent(put(f"{rich}/status", Edited("made", kind.status)))] if kind.has_status else []
    return [
        sent(post(kind.collection, kind.manifest("small", kind.minimal))),
        get(small),
        sent(
            post(f"{kind.collection}?fieldManager=maker&fieldValidation=Strict", kind.manifest("rich", kind.rich))
        ).named("made"),
        *status,
        sent(put(rich, Edited("made", {"metadata": {"resourceVersion": None, "annotations": {"put": "yes"}}}))),
        get(rich),
        sent(delete(rich, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})),
        get(rich),
    ]


LIVES = [Case(f"{kind.kind} {kind.api_version} in protobuf", tuple(life(kind))) for kind in KINDS]


def options(api_version: str = "v1", **wanted: object) -> dict[str, object]:
    return {"kind": "DeleteOptions", "apiVersion": api_version, **wanted}


def in_bytes(path: str, content: bytes) -> Step:
    return post(path, content, Content_Type=PROTOBUF)


CASES = cases_of(
    LIVES,
    [case(f"protobuf: {name}", in_bytes(CONFIG_MAPS, content)) for name, content in BODIES.items()],
    [case(f"protobuf pod: {name}", in_bytes(PODS, content)) for name, content in PODS_IN_BYTES.items()],
    [case(f"protobuf time: {name}", in_bytes(PODS, a_pod_deleted_at(time))) for name, time in TIMES.items()],
    [
        case("a body that is a table", post(CONFIG_MAPS, {"apiVersion": "meta.k8s.io/v1", "kind": "Table"})),
        case(
            "protobuf with parameters",
            Step("POST", CONFIG_MAPS, config_map("x"), {"Content-Type": f"{PROTOBUF};odd=1"}),
            Step("POST", CONFIG_MAPS, config_map("y"), {"Content-Type": f"{PROTOBUF}; charset=utf-8"}),
            Step("POST", CONFIG_MAPS, GOOD, {"Content-Type": f"{PROTOBUF}; odd"}),
            Step("POST", CONFIG_MAPS, GOOD, {"Content-Type": f"{PROTOBUF};stream=watch"}),
            Step("POST", CONFIG_MAPS, GOOD, {"Content-Type": PROTOBUF.upper()}),
        ),
        case(
            "protobuf sent as json, and json as protobuf",
            post(CONFIG_MAPS, GOOD),
            Step("POST", CONFIG_MAPS, GOOD, {"Content-Type": "application/yaml"}),
            in_bytes(CONFIG_MAPS, b"{}"),
        ),
        case(
            "protobuf answered in what is accepted",
            Step("POST", CONFIG_MAPS, config_map("x"), {"Content-Type": PROTOBUF, "Accept": "application/yaml"}),
            Step("POST", CONFIG_MAPS, config_map("y"), {"Content-Type": PROTOBUF, "Accept": "application/json"}),
        ),
        case(
            "a body sent as cbor", Step("POST", CONFIG_MAPS, b"\xd9\xd9\xf7\xa0", {"Content-Type": "application/cbor"})
        ),
        case(
            "a patch in protobuf",
            post(CONFIG_MAPS, config_map("x")),
            patch(f"{CONFIG_MAPS}/x", GOOD, PROTOBUF),
        ),
        case("an event in protobuf", sent(post("/apis/events.k8s.io/v1/namespaces/{ns}/events", EVENT))),
        case("int or string in protobuf", sent(post("/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", POLICY))),
        case(
            "raw json in protobuf",
            sent(post(REVISIONS, REVISION)),
            in_bytes(REVISIONS, envelope("apps/v1", "ControllerRevision", octets(1, octets(1, "s")))),
        ),
        case(
            "managed fields that are no json in protobuf",
            in_bytes(
                CONFIG_MAPS,
                envelope(
                    "v1",
                    "ConfigMap",
                    octets(1, octets(1, "x") + octets(17, octets(1, "m") + octets(7, octets(1, "odd")))),
                ),
            ),
        ),
        case(
            "definitions and custom objects in protobuf",
            sent(post(CRDS, DEFINITION)),
            get(THINGS).until(200),
            post(THINGS, THING).until(201),
            in_bytes(CONFIG_MAPS, IN_BYTES),
            sent(delete(f"{THINGS}/t", options("v1", gracePeriodSeconds=0))),
            sent(delete(f"{CRDS}/things.protobuf.example", options())),
        ),
        case(
            "reviews in protobuf",
            sent(post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", REVIEW)),
            sent(post("/apis/authorization.k8s.io/v1/subjectaccessreviews", REVIEW_OF_ANOTHER)),
            sent(post("/apis/authorization.k8s.io/v1/namespaces/{ns}/localsubjectaccessreviews", LOCAL_REVIEW)),
            sent(post("/apis/authentication.k8s.io/v1/tokenreviews", TOKEN_REVIEW)),
        ),
        case(
            "a request for a token in protobuf",
            post("/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "robot"}}),
            sent(post("/api/v1/namespaces/{ns}/serviceaccounts/robot/token", {**TOKEN_REQUEST, "spec": {}})),
            sent(
                post(
                    "/api/v1/namespaces/{ns}/serviceaccounts/robot/token",
                    {**TOKEN_REQUEST, "spec": {"audiences": ["a"], "expirationSeconds": 1}},
                )
            ),
            in_bytes("/api/v1/namespaces/{ns}/serviceaccounts/robot/token", GOOD),
        ),
        case(
            "a namespace finalized in protobuf",
            sent(post("/api/v1/namespaces", NAMESPACE)).named("made"),
            sent(put("/api/v1/namespaces/{ns}-more", Edited("made", {"metadata": {"labels": {"a": "b"}}}))),
            sent(
                put("/api/v1/namespaces/{ns}-more/finalize", Edited("made", {"spec": {"finalizers": ["a.example/b"]}}))
            ),
        ),
        case(
            "containers added and resized in protobuf",
            sent(post(PODS, pod("p"))).named("made"),
            sent(put(f"{PODS}/p/ephemeralcontainers", Edited("made", {"spec": {"ephemeralContainers": [DEBUGGER]}}))),
            sent(
                put(
                    f"{PODS}/p/resize",
                    Edited("made", {"metadata": {"resourceVersion": None}, "spec": {"containers": [RESIZED]}}),
                )
            ),
        ),
        case(
            "a binding in protobuf",
            post(PODS, pod("p")),
            post(PODS, pod("q")),
            sent(post(f"{PODS}/p/binding", BINDING)),
            get(f"{PODS}/p"),
            in_bytes(f"{PODS}/q/binding", envelope("v1", "Binding", b"\x08")),
            in_bytes(f"{PODS}/q/binding", GOOD),
            sent(post("/api/v1/namespaces/{ns}/bindings", {**BINDING, "metadata": {"name": "q"}})),
        ),
        case(
            "an eviction in protobuf",
            post(PODS, pod("p")),
            in_bytes(f"{PODS}/p/eviction", GOOD),
            sent(post(f"{PODS}/p/eviction", {**EVICTION, "deleteOptions": {"dryRun": ["All"]}})),
            sent(post(f"{PODS}/p/eviction", {**EVICTION, "deleteOptions": {"gracePeriodSeconds": 0}})),
            get(f"{PODS}/p"),
        ),
        case(
            "a scale in protobuf",
            sent(post(DEPLOYMENTS, DEPLOYMENT)),
            sent(put(f"{DEPLOYMENTS}/d/scale", {**SCALE, "spec": {"replicas": 2}})),
            sent(put(f"{DEPLOYMENTS}/d/scale", {**SCALE, "spec": {"replicas": -1}})),
            Step("PUT", f"{DEPLOYMENTS}/d/scale", GOOD, {"Content-Type": PROTOBUF}),
        ),
        case(
            "an update in protobuf",
            sent(post(CONFIG_MAPS, config_map("x", {"a": "1"}))).named("made"),
            sent(put(f"{CONFIG_MAPS}/x", Edited("made", {"data": {"b": "2"}}))),
            sent(put(f"{CONFIG_MAPS}/x", Edited("made", {"data": {"c": "3"}}))),
            sent(put(f"{CONFIG_MAPS}/y", Edited("made"))),
            Step("PUT", f"{CONFIG_MAPS}/x", GOOD[:-1], {"Content-Type": PROTOBUF}),
            Step("PUT", f"{CONFIG_MAPS}/x", b"", {"Content-Type": PROTOBUF}),
        ),
        case(
            "delete options in protobuf",
            post(CONFIG_MAPS, config_map("x")).named("x"),
            sent(delete(f"{CONFIG_MAPS}/x", options(preconditions={"uid": "odd"}))),
            sent(delete(f"{CONFIG_MAPS}/x", options(dryRun=["All"]))),
            sent(delete(f"{CONFIG_MAPS}/x", options(dryRun=["Odd"]))),
            sent(delete(f"{CONFIG_MAPS}/x", options(propagationPolicy="Odd"))),
            sent(delete(f"{CONFIG_MAPS}/x", options("apps/v1", propagationPolicy="Background"))),
            post(CONFIG_MAPS, config_map("x")),
            sent(delete(CONFIG_MAPS, options("batch/v1", gracePeriodSeconds=0))),
            get(f"{CONFIG_MAPS}/x"),
        ),
        case(
            "bad delete options in protobuf",
            post(CONFIG_MAPS, config_map("x")),
            *(
                Step("DELETE", f"{CONFIG_MAPS}/x", content, {"Content-Type": PROTOBUF})
                for content in (
                    GOOD,
                    MAGIC,
                    b"{}",
                    envelope("v1", "Odd", b""),
                    envelope("odd/v1", "DeleteOptions", octets(1, "x")),
                    envelope("v1", "DeleteOptions", octets(1, "x")),
                    envelope("v1", "DeleteOptions", b"\x80"),
                    envelope("v9", "DeleteOptions", b""),
                    envelope("v1", "", number(1, 0)),
                )
            ),
        ),
    ],
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_body_in_protobuf_is_taken_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)


def test_what_is_damaged_here_is_whole_otherwise() -> None:
    assert protobuf(config_map("x")).startswith(GOOD[:20])
