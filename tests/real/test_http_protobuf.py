"""Bodies in protobuf, as typed Go clients send them: every kind, the options, and all the ways in which bytes are bad.

The manifests are those of `harness/manifests/`, encoded by `harness/protobuf.py`; damaged bytes are made by hand.
"""

from __future__ import annotations

import pytest

from harness.both import Both
from harness.manifests import KINDS, Kind
from harness.objects import CONFIG_MAPS, DEPLOYMENTS, PODS, config_map, pod
from harness.protobuf import MAGIC, PROTOBUF, envelope, message, number, octets, protobuf, varint
from harness.scenario import AnyStep, Case, Edited, Step, case, cases_of, delete, get, patch, post, put

pytestmark = pytest.mark.real

CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"
POD = "io.k8s.api.core.v1.Pod"


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


def body(*fields: bytes) -> bytes:
    """A ConfigMap named x, with more bytes at the end."""
    return envelope("v1", "ConfigMap", message(CONFIG_MAP, config_map("x")) + b"".join(fields))


def named(api_version: str, kind: str) -> bytes:
    return envelope(api_version, kind, message(CONFIG_MAP, config_map("x")))


GOOD = body()
META = octets(1, octets(1, "x"))
BODIES = {
    "empty": b"",
    "the magic alone": MAGIC,
    "half of the magic": b"k8",
    "another magic": b"k9s\x00" + GOOD[4:],
    "no magic": GOOD[4:],
    "json": b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}',
    "cut in the envelope": GOOD[: len(GOOD) // 2],
    "cut in the first tag": MAGIC + b"\x8a",
    "cut by a byte": GOOD[:-1],
    "garbage behind it": GOOD + b"\xff\xff\xff\xff",
    "an unknown field behind it": GOOD + octets(9, "odd"),
    "zeros behind it": GOOD + b"\x00\x00",
    "no kind": envelope("v1", "", message(CONFIG_MAP, config_map("x"))),
    "no version": envelope("", "ConfigMap", message(CONFIG_MAP, config_map("x"))),
    "no type at all": MAGIC + octets(2, message(CONFIG_MAP, config_map("x"))),
    "no object": envelope("v1", "ConfigMap", b""),
    "neither type nor object": MAGIC + octets(3, "x"),
    "another kind": envelope("v1", "Secret", message(CONFIG_MAP, config_map("x"))),
    "a list": envelope("v1", "ConfigMapList", octets(2, META)),
    "a kind of another group": named("apps/v1", "Deployment"),
    "an unknown kind": named("v1", "Odd"),
    "an unknown version": named("v9", "ConfigMap"),
    "an unknown group": named("odd.example/v1", "ConfigMap"),
    "a version of three parts": named("a/b/c", "ConfigMap"),
    "a kind without protobuf": named("meta.k8s.io/v1", "Table"),
    "an unknown content encoding": GOOD + octets(3, "odd"),
    "an unknown content type": GOOD + octets(4, "application/odd"),
    "the type twice": GOOD + octets(1, octets(2, "Secret")),
    "the object twice": GOOD + octets(2, octets(1, octets(1, "y"))),
    "a number for the type": MAGIC + number(1, 1) + octets(2, META),
    "a number for the object": MAGIC + octets(1, octets(1, "v1") + octets(2, "ConfigMap")) + number(2, 1),
    "a number for the kind": MAGIC + octets(1, number(2, 1)) + octets(2, META),
    "a number for the metadata": envelope("v1", "ConfigMap", number(1, 1)),
    "a number for the name": envelope("v1", "ConfigMap", octets(1, number(1, 1))),
    "text for a number": envelope("v1", "ConfigMap", octets(1, octets(1, "x") + octets(7, "1"))),
    "text for a flag": body(octets(4, "true")),
    "a fixed number for a flag": body(varint(4 << 3 | 5) + b"\x01\x00\x00\x00"),
    "an unknown field": body(octets(99, "odd"), number(98, 7), varint(97 << 3 | 1) + b"12345678"),
    "an unknown group of fields": body(varint(99 << 3 | 3) + number(1, 1) + varint(99 << 3 | 4)),
    "an open group": body(varint(99 << 3 | 3) + number(1, 1)),
    "a group that was never opened": body(varint(99 << 3 | 4)),
    "a field with the number zero": body(number(0, 1)),
    "a field with a huge number": body(number(1 << 40, 1)),
    "a wire type that does not exist": body(varint(99 << 3 | 7)),
    "a length beyond the end": body(varint(99 << 3 | 2) + varint(1000)),
    "a length of more than all memory": body(varint(99 << 3 | 2) + varint((1 << 62) + 1)),
    "a negative length": body(varint(1 << 3 | 2) + varint(-1)),
    "a negative length of an unknown field": body(varint(99 << 3 | 2) + varint(-1)),
    "a number that never ends": body(varint(4 << 3) + b"\xff" * 20),
    "a tag that never ends": body(b"\xff" * 20),
    "a fixed number that is cut": body(varint(99 << 3 | 1) + b"123"),
    "metadata in two parts": body(octets(1, octets(11, octets(1, "a") + octets(2, "b")))),
    "an entry without a value": body(octets(2, octets(1, "a"))),
    "an entry without a key": body(octets(2, octets(2, "a"))),
    "an empty entry": body(octets(2, b"")),
    "an entry with an unknown field": body(octets(2, octets(1, "a") + octets(2, "b") + number(3, 1))),
    "an entry that is cut": body(octets(2, octets(1, "a") + varint(2 << 3 | 2) + varint(9))),
    "a key twice": body(octets(2, octets(1, "a") + octets(2, "1")), octets(2, octets(1, "a") + octets(2, "2"))),
    "bytes that are no text": body(octets(2, octets(1, "a") + octets(2, b"\xff\xfe"))),
    "bytes where bytes belong": body(octets(3, octets(1, "a") + octets(2, b"\xff\xfe\x00"))),
    "the same key in both maps": body(octets(2, octets(1, "a")), octets(3, octets(1, "a"))),
    "a flag of two": body(number(4, 2)),
    "a number of more than 64 bits": envelope(
        "v1", "ConfigMap", octets(1, octets(1, "x") + varint(7 << 3) + b"\xff" * 9 + b"\x7f")
    ),
}


def pod_with(spec: bytes) -> bytes:
    return envelope("v1", "Pod", message(POD, pod("p")) + octets(2, spec))


PODS_IN_BYTES = {
    "a packed list": pod_with(octets(14, octets(4, varint(1) + varint(2) + varint(300)))),
    "a list that is packed in part": pod_with(octets(14, octets(4, varint(1)) + number(4, 2))),
    "a packed list that is cut": pod_with(octets(14, octets(4, varint(1) + b"\x80"))),
    "a quantity that is none": pod_with(octets(32, octets(1, "cpu") + octets(2, octets(1, "odd")))),
    "a quantity that is empty": pod_with(octets(32, octets(1, "cpu") + octets(2, octets(1, "")))),
    "a quantity without a value": pod_with(octets(32, octets(1, "cpu") + octets(2, b""))),
    "a number too large for its field": pod_with(octets(13, number(2, (1 << 40) + 7))),
    "a negative number": pod_with(number(4, -5)),
    "an explicit zero behind a pointer": pod_with(number(4, 0)),
    "an explicit false behind a pointer": pod_with(number(21, 0)),
    "an empty struct behind a pointer": pod_with(octets(14, b"")),
    "gates": pod_with(octets(38, octets(1, "a.example/b")) + octets(38, octets(1, ""))),
}
TIMES = {
    "a time before 1970": octets(9, number(1, -1)),
    "a time with a fraction": octets(9, number(1, 1_700_000_000) + number(2, 999_999_999)),
    "an empty time": octets(9, b""),
    "the zero time": octets(9, number(1, -62135596800)),
}


def a_pod_deleted_at(time: bytes) -> bytes:
    return envelope("v1", "Pod", octets(1, octets(1, "p") + time) + message(POD, {**pod("p"), "metadata": {}}))


EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e", "namespace": "{ns}"},
    "eventTime": "2026-11-15T10:00:00.123456Z",
    "action": "Act",
    "reason": "Why",
    "type": "Normal",
    "reportingController": "c.example/x",
    "reportingInstance": "i",
    "regarding": {"kind": "Pod", "namespace": "{ns}", "name": "p"},
    "series": {"count": 2, "lastObservedTime": "2026-11-15T10:00:01.000001Z"},
}
POLICY = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b"},
    "spec": {"maxUnavailable": "30%", "selector": {"matchLabels": {"a": "b"}}},
}
REVISION = {
    "apiVersion": "apps/v1",
    "kind": "ControllerRevision",
    "metadata": {"name": "r"},
    "revision": 1,
    "data": {"a": [1, {"b": None}], "c": 1.5},
}
REVISIONS = "/apis/apps/v1/namespaces/{ns}/controllerrevisions"
REVISION_TYPE = "io.k8s.api.apps.v1.ControllerRevision"
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectAccessReview",
    "spec": {"resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "pods"}},
}
REVIEW_OF_ANOTHER = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "spec": {
        "nonResourceAttributes": {"path": "/healthz", "verb": "get"},
        "user": "jane",
        "groups": ["a", "b"],
        "extra": {"scopes": ["x", "y"], "none": []},
    },
}
LOCAL_REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "LocalSubjectAccessReview",
    "metadata": {"namespace": "{ns}"},
    "spec": {"resourceAttributes": {"namespace": "{ns}", "verb": "get", "resource": "pods"}, "user": "jane"},
}
TOKEN_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "odd"}}
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "{ns}-more"}}
DEBUGGER = {"name": "d", "image": "i", "targetContainerName": "main", "tty": True}
RESIZED = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": "100m"}}}
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "{ns}"}}
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "namespace": "{ns}"}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "strategy": {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": "25%"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 10.5, "default": 3},
                "words": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "open": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.protobuf.example"},
    "spec": {
        "group": "protobuf.example",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
THINGS = "/apis/protobuf.example/v1/namespaces/{ns}/things"
THING = {"apiVersion": "protobuf.example/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"words": ["a"]}}
IN_BYTES = envelope("protobuf.example/v1", "Thing", octets(1, octets(1, "t")))


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
def test_a_body_in_protobuf_is_taken_the_same(both: Both, case: Case) -> None:
    both.agree(case)


def test_what_is_damaged_here_is_whole_otherwise() -> None:
    assert protobuf(config_map("x")).startswith(GOOD[:20])
