"""Hypothesis strategies for objects and patches of the differential test: fragments of a kind, and four patch types.

A fragment is a valid part of an object. Unchanged, it serves as a base and as an apply; with nulls and unknown fields,
as a merge patch; with directives, as a strategic merge patch. JSON patches use the paths of fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from harness.manifests.pods import SMALL_POD_SPEC

Draw = st.DrawFn
WORDS = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.sampled_from(["1", "2", "", "x y", "ä"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier", "example.com/x"]), WORDS, max_size=2)
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "schedulingGates": "name",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
    "conditions": "type",
    "hostAliases": "ip",
    "volumeMounts": "mountPath",
    "topologySpreadConstraints": "topologyKey",
    "addresses": "type",
}
MANAGERS = st.sampled_from(["one", "two", "three"])


@dataclass(frozen=True)
class Subject:
    """A kind to be patched. `fragment` draws parts of it, `base` makes a part into a whole that can be created."""

    name: str
    api_version: str
    kind: str
    collection: str
    fragment: st.SearchStrategy[dict[str, Any]]
    base: Callable[[dict[str, Any]], dict[str, Any]]
    subresource: str = ""


@dataclass(frozen=True)
class Patch:
    kind: str
    body: Any
    query: str


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


def items(key: str, names: st.SearchStrategy[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    item = st.builds(lambda name, rest: {key: name, **rest}, names, optional(**fields))
    return st.lists(item, max_size=3, unique_by=lambda each: str(each[key]))


METADATA = optional(
    labels=LABELS,
    annotations=st.dictionaries(WORDS, VALUES, max_size=2),
    finalizers=st.lists(st.sampled_from(["example.com/a", "example.com/b"]), unique=True, max_size=2),
    ownerReferences=st.lists(
        st.builds(lambda uid, kind: {"apiVersion": "v1", "kind": kind, "name": "o", "uid": uid}, WORDS, WORDS),
        max_size=2,
        unique_by=lambda each: each["uid"],
    ),
)
IMAGES = st.sampled_from(["i:1", "i:2", "j"])
QUANTITIES = st.sampled_from(["1", "500m", "0.5", 2, "1Gi", "1024Mi"])
CONTAINERS = items(
    "name",
    st.sampled_from(["main", "side"]),
    image=IMAGES,
    args=st.lists(WORDS, max_size=2),
    env=items("name", st.sampled_from(["A", "B", "C"]), value=VALUES),
    ports=st.lists(
        st.builds(lambda port: {"containerPort": port}, st.sampled_from([80, 81])), max_size=2, unique_by=str
    ),
    resources=optional(requests=st.dictionaries(st.sampled_from(["cpu", "memory"]), QUANTITIES, max_size=2)),
    volumeMounts=items("mountPath", st.sampled_from(["/a", "/b"]), name=st.just("v")),
)
TOLERATIONS = st.lists(
    st.builds(
        lambda key, effect: {"key": key, "operator": "Exists", "effect": effect},
        WORDS,
        st.sampled_from(["NoSchedule", "NoExecute"]),
    ),
    max_size=2,
)
POD_SPEC = optional(
    containers=CONTAINERS,
    nodeSelector=LABELS,
    schedulingGates=items("name", st.sampled_from(["g1", "g2", "g3"])),
    tolerations=TOLERATIONS,
    volumes=st.just([{"name": "v", "emptyDir": {}}]),
    imagePullSecrets=items("name", WORDS),
    terminationGracePeriodSeconds=st.sampled_from([0, 5, 30]),
    hostAliases=st.lists(
        st.builds(lambda ip: {"ip": ip, "hostnames": ["h"]}, st.sampled_from(["10.1.1.1", "10.1.1.2"])),
        max_size=2,
        unique_by=str,
    ),
)


def completed_spec(spec: dict[str, Any]) -> dict[str, Any]:
    containers = [{"image": "i:1", **each} for each in spec.get("containers", [])]
    mounted = any("volumeMounts" in each for each in containers)
    volumes = {"volumes": [{"name": "v", "emptyDir": {}}]} if mounted else {}
    return {**spec, **volumes, "containers": containers or SMALL_POD_SPEC["containers"]}


def completed_template(spec: dict[str, Any]) -> dict[str, Any]:
    template = spec.get("template", {})
    labels = {**template.get("metadata", {}).get("labels", {}), "run": "x"}
    return {
        "metadata": {**template.get("metadata", {}), "labels": labels},
        "spec": completed_spec(template.get("spec", {})),
    }


TEMPLATE = optional(metadata=optional(labels=LABELS, annotations=LABELS), spec=POD_SPEC)
STATUS_CONDITIONS = items(
    "type", st.sampled_from(["A", "B", "PodScheduled"]), status=st.sampled_from(["True", "False"]), reason=WORDS
)
CORE = "/api/v1/namespaces/{ns}"
SUBJECTS = (
    Subject(
        "config maps",
        "v1",
        "ConfigMap",
        f"{CORE}/configmaps",
        optional(
            metadata=METADATA,
            data=st.dictionaries(WORDS, VALUES, max_size=3),
            binaryData=st.dictionaries(st.just("z"), st.just("AA=="), max_size=1),
        ),
        lambda part: part,
    ),
    Subject(
        "pods",
        "v1",
        "Pod",
        f"{CORE}/pods",
        optional(metadata=METADATA, spec=POD_SPEC),
        lambda part: {**part, "spec": completed_spec(part.get("spec", {}))},
    ),
    Subject(
        "the status of pods",
        "v1",
        "Pod",
        f"{CORE}/pods",
        optional(
            metadata=METADATA,
            status=optional(phase=st.sampled_from(["Running", "Pending"]), conditions=STATUS_CONDITIONS, message=WORDS),
        ),
        lambda part: {"spec": completed_spec({})},
        "status",
    ),
    Subject(
        "deployments",
        "apps/v1",
        "Deployment",
        "/apis/apps/v1/namespaces/{ns}/deployments",
        optional(
            metadata=METADATA,
            spec=optional(
                replicas=st.integers(0, 3),
                paused=st.booleans(),
                minReadySeconds=st.integers(0, 2),
                strategy=st.sampled_from(
                    [{"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%"}}]
                ),
                template=TEMPLATE,
            ),
        ),
        lambda part: {
            **part,
            "spec": {
                **part.get("spec", {}),
                "selector": {"matchLabels": {"run": "x"}},
                "template": completed_template(part.get("spec", {})),
            },
        },
    ),
    Subject(
        "services",
        "v1",
        "Service",
        f"{CORE}/services",
        optional(
            metadata=METADATA,
            spec=optional(
                selector=LABELS,
                sessionAffinity=st.sampled_from(["None", "ClientIP"]),
                ports=st.lists(
                    st.builds(
                        lambda port, protocol, target: {
                            "name": f"p{port}{protocol}".lower(),
                            "port": port,
                            "protocol": protocol,
                            "targetPort": target,
                        },
                        st.sampled_from([80, 81]),
                        st.sampled_from(["TCP", "UDP"]),
                        st.sampled_from([8080, "web"]),
                    ),
                    min_size=1,
                    max_size=3,
                    unique_by=lambda each: each["name"],
                ),
            ),
        ),
        lambda part: {
            **part,
            "spec": {"ports": [{"name": "p80tcp", "port": 80}], **part.get("spec", {}), "clusterIP": "None"},
        },
    ),
    Subject(
        "nodes",
        "v1",
        "Node",
        "/api/v1/nodes",
        optional(
            metadata=METADATA,
            spec=optional(
                unschedulable=st.booleans(),
                taints=st.lists(
                    st.builds(
                        lambda key, effect: {"key": key, "effect": effect},
                        WORDS,
                        st.sampled_from(["NoSchedule", "NoExecute"]),
                    ),
                    max_size=2,
                    unique_by=str,
                ),
            ),
        ),
        lambda part: part,
    ),
    Subject(
        "pod templates",
        "v1",
        "PodTemplate",
        f"{CORE}/podtemplates",
        optional(metadata=METADATA, template=TEMPLATE),
        lambda part: {**part, "template": completed_template({"template": part.get("template", {})})},
    ),
    Subject(
        "jobs",
        "batch/v1",
        "Job",
        "/apis/batch/v1/namespaces/{ns}/jobs",
        optional(
            metadata=METADATA,
            spec=optional(
                parallelism=st.integers(0, 2), suspend=st.booleans(), backoffLimit=st.integers(0, 2), template=TEMPLATE
            ),
        ),
        lambda part: {
            **part,
            "spec": {
                **part.get("spec", {}),
                "template": {
                    **(whole := completed_template(part.get("spec", {}))),
                    "spec": {**whole["spec"], "restartPolicy": "Never"},
                },
            },
        },
    ),
)


@st.composite
def spoiled(draw: Draw, value: Any) -> Any:
    """Now and then a null, a stranger or a wrong type, anywhere in a fragment."""
    chance = draw(st.integers(0, 24))
    if chance == 0:
        return None
    if chance == 1:
        return draw(st.sampled_from([1, "x", [], {}, True]))
    if isinstance(value, dict):
        inner = {key: draw(spoiled(item)) for key, item in value.items()}
        return {**inner, "stranger": 1} if chance == 2 else inner
    if isinstance(value, list):
        return [draw(spoiled(item)) for item in value]
    return value


@st.composite
def directed(draw: Draw, value: Any) -> Any:
    """A fragment with the directives of a strategic patch."""
    if isinstance(value, list):
        return [draw(directed(item)) for item in value]
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, item in value.items():
        inner = draw(directed(item))
        merge_key = MERGE_KEYS.get(key)
        if merge_key and isinstance(inner, list):
            inner = [
                {"$patch": "delete", merge_key: each[merge_key]} if draw(st.integers(0, 3)) == 0 else each
                for each in inner
            ]
            choice = draw(st.integers(0, 7))
            if choice == 0:
                inner = [*inner, {"$patch": "replace"}]
            elif choice == 1:
                made[f"$setElementOrder/{key}"] = draw(
                    st.permutations([{merge_key: each[merge_key]} for each in inner if merge_key in each])
                )
        elif key == "finalizers" and inner and draw(st.booleans()):
            made["$deleteFromPrimitiveList/finalizers"] = inner
            continue
        elif isinstance(inner, dict) and draw(st.integers(0, 9)) == 0:
            inner = {**inner, "$patch": draw(st.sampled_from(["replace", "delete"]))}
        made[key] = None if draw(st.integers(0, 19)) == 0 else inner
    return made


def places(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every pointer into a fragment with the value it leads to."""
    if isinstance(value, dict):
        for key, item in value.items():
            here = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            yield here, item
            yield from places(item, here)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield f"{path}/{index}", item
            yield from places(item, f"{path}/{index}")


@st.composite
def json_patches(draw: Draw, fragment: dict[str, Any]) -> list[dict[str, Any]]:
    known = [*places(fragment), ("/metadata/labels", {"app": "z"}), ("/metadata/annotations/none", "1")]
    operations = []
    for _ in range(draw(st.integers(1, 3))):
        path, value = draw(st.sampled_from(known))
        op = draw(st.sampled_from(["add", "add", "replace", "remove", "test", "copy", "move"]))
        step: dict[str, Any] = {"op": op, "path": path}
        if op in ("add", "replace", "test"):
            step["value"] = draw(spoiled(value))
        elif op in ("copy", "move"):
            # The metadata as a whole hold a revision, which is each server's own.
            step["from"] = draw(st.sampled_from([path for path, _ in known if path != "/metadata"]))
        if op == "add" and isinstance(value, list) and draw(st.booleans()):
            step = {"op": "add", "path": f"{path}/-", "value": value[0] if value else {}}
        operations.append(step)
    return operations


@st.composite
def patches(draw: Draw, subject: Subject) -> Patch:
    fragment = draw(subject.fragment)
    kind = draw(st.sampled_from(["json", "merge", "strategic", "apply", "apply"]))
    query = f"fieldManager={draw(MANAGERS)}"
    if draw(st.integers(0, 5)) == 0:
        query += f"&fieldValidation={draw(st.sampled_from(['Strict', 'Ignore']))}"
    if kind == "json":
        return Patch(kind, draw(json_patches(fragment)), query)
    if kind == "merge":
        return Patch(kind, draw(spoiled(fragment)), query)
    if kind == "strategic":
        return Patch(kind, draw(directed(fragment)), query)
    if draw(st.booleans()):
        query += "&force=true"
    return Patch(kind, fragment, query)
