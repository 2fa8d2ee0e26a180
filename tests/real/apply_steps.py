"""Random writes for `test_apply_differential.py`: per kind, a first object and the pieces that writes are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]
Pieces = st.SearchStrategy[Object]


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def some(*values: Any, at_most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(one_of(*values), min_size=1, max_size=at_most, unique=True)


def at(path: str, value: st.SearchStrategy[Any]) -> Pieces:
    """`value` at a dotted path."""
    for name in reversed(path.split(".")):
        value = st.fixed_dictionaries({name: value})
    return value


def keyed(values: st.SearchStrategy[Object], *keys: str, at_most: int = 3) -> st.SearchStrategy[list[Object]]:
    return st.lists(values, min_size=1, max_size=at_most, unique_by=lambda item: tuple(item.get(key) for key in keys))


def conditions(*types: str) -> st.SearchStrategy[list[Object]]:
    each = st.fixed_dictionaries(
        {"type": one_of(*types), "status": one_of("True", "False")},
        optional={"reason": one_of("R"), "message": one_of("m")},
    )
    return keyed(each, "type", at_most=2)


OWNER = st.fixed_dictionaries(
    {"apiVersion": st.just("v1"), "kind": st.just("Foo"), "name": st.just("o"), "uid": one_of("u", "v")},
    optional={"controller": st.just(False), "blockOwnerDeletion": st.just(True)},
)
METADATA: tuple[Pieces, ...] = (
    at("metadata.labels", st.dictionaries(one_of("a", "b", "x.io/c"), one_of("x", "y", None), max_size=2)),
    at("metadata.annotations", st.dictionaries(one_of("a", "b"), one_of("x", "<&>"), max_size=2)),
    at("metadata.finalizers", some("x.io/a", "x.io/b", "x.io/c")),
    at("metadata.ownerReferences", keyed(OWNER, "uid", at_most=2)),
    at("metadata.labels", st.none()),
)

ENV = st.fixed_dictionaries(
    {"name": one_of("A", "B", "C")},
    optional={"value": one_of("1", "2")},
) | st.fixed_dictionaries(
    {
        "name": one_of("A", "B"),
        "valueFrom": at("configMapKeyRef", st.fixed_dictionaries({"name": one_of("x"), "key": one_of("k", "l")})),
    }
)
PORT = st.fixed_dictionaries({"containerPort": one_of(80, 81)}, optional={"protocol": one_of("TCP", "UDP")})
CONTAINER = st.fixed_dictionaries(
    {"name": one_of("a", "b", "c"), "image": one_of("i1", "i2")},
    optional={
        "env": keyed(ENV, "name"),
        "ports": keyed(PORT, "containerPort", at_most=2),
        "args": some("x", "y", "z"),
        "command": st.just([]),
        "resources": at("requests", st.dictionaries(one_of("cpu", "memory"), one_of("1", "1000m", "2"), max_size=2)),
        "securityContext": one_of({}, {"runAsUser": 1}, {"capabilities": {"add": ["X"]}}, None),
        "imagePullPolicy": one_of("Always", "Never"),
    },
)
CONTAINERS = keyed(CONTAINER, "name")
VOLUMES = one_of(
    [],
    None,
    [{"name": "v", "emptyDir": {}}],
    [{"name": "w", "configMap": {"name": "p"}}, {"name": "v", "emptyDir": {"medium": "Memory"}}],
)
SPREAD = st.fixed_dictionaries(
    {
        "topologyKey": one_of("z", "r"),
        "maxSkew": one_of(1, 2),
        "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway"),
    }
)
STRATEGY = one_of(None, {}, {"rollingUpdate": {"maxSurge": 1}}, {"rollingUpdate": {"maxSurge": "25%"}})
GATES = some("g/1", "g/2", "g/3").map(lambda names: [{"name": name} for name in names])
SECRETS = some("s", "t").map(lambda names: [{"name": name} for name in names])
IMAGES = keyed(st.fixed_dictionaries({"name": one_of("a", "b"), "image": one_of("i1", "i3")}), "name")
TAINTS = one_of([], [{"key": "a", "effect": "NoSchedule"}], [{"key": "b", "effect": "NoExecute"}])
TEMPLATE = "spec.template.spec"
SERVICE_PORT = st.fixed_dictionaries(
    {"port": one_of(80, 81), "name": one_of("p", "q")},
    optional={"protocol": one_of("TCP", "UDP"), "targetPort": one_of(80, "web")},
)


@dataclass(frozen=True)
class Subject:
    """A kind under test. `unowned` are fields that admission or the kind's preparation writes by itself."""

    group: str
    version: str
    kind: str
    plural: str
    type_name: str
    first: Object
    pieces: Pieces
    status: Pieces | None = None
    namespaced: bool = True
    unowned: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


CORE = "io.k8s.api.core.v1."
SUBJECTS = (
    Subject(
        "",
        "v1",
        "ConfigMap",
        "configmaps",
        f"{CORE}ConfigMap",
        {},
        st.one_of(
            at("data", st.dictionaries(one_of("k1", "k2", "k.3"), one_of("v", "<&>"), max_size=3)),
            at("data", st.none()),
            at("binaryData", st.dictionaries(one_of("b1", "b2"), one_of("AA==", "AAE="), max_size=2)),
            *METADATA,
        ),
    ),
    Subject(
        "apps",
        "v1",
        "Deployment",
        "deployments",
        "io.k8s.api.apps.v1.Deployment",
        {
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {
                    "metadata": {"labels": {"app": "x"}},
                    "spec": {"containers": [{"name": "a", "image": "i1"}]},
                },
            }
        },
        st.one_of(
            at("spec.replicas", one_of(1, 2, None)),
            at(
                "spec.strategy",
                one_of(None, {}, {"rollingUpdate": {"maxSurge": 1}}, {"rollingUpdate": {"maxSurge": "25%"}}),
            ),
            at(f"{TEMPLATE}.containers", CONTAINERS),
            at(f"{TEMPLATE}.containers", CONTAINERS),
            at(f"{TEMPLATE}.initContainers", CONTAINERS),
            at(f"{TEMPLATE}.volumes", VOLUMES),
            at(f"{TEMPLATE}.nodeSelector", st.dictionaries(one_of("a", "b"), one_of("x", "y"), max_size=2)),
            at(f"{TEMPLATE}.tolerations", one_of(None, [{"key": "a", "operator": "Exists"}], [{"operator": "Exists"}])),
            at(
                f"{TEMPLATE}.schedulingGates", some("g/1", "g/2", "g/3").map(lambda names: [{"name": n} for n in names])
            ),
            at(f"{TEMPLATE}.imagePullSecrets", SECRETS),
            at(f"{TEMPLATE}.topologySpreadConstraints", keyed(SPREAD, "topologyKey", "whenUnsatisfiable")),
            at(f"{TEMPLATE}.securityContext", one_of(None, {}, {"runAsUser": 1})),
            *METADATA,
        ),
        st.one_of(
            at("status.replicas", one_of(0, 1, 2)),
            at("status.conditions", conditions("Available", "Progressing")),
            at("metadata.labels", st.dictionaries(one_of("a"), one_of("x", "y"), max_size=1)),
        ),
    ),
    Subject(
        "",
        "v1",
        "Service",
        "services",
        f"{CORE}Service",
        {"spec": {"ports": [{"port": 80, "name": "q"}]}},
        st.one_of(
            at("spec.selector", st.dictionaries(one_of("a", "b"), one_of("x", "y"), max_size=2)),
            at("spec.ports", keyed(SERVICE_PORT, "port", at_most=2)),
            at("spec.externalIPs", some("1.1.1.1", "2.2.2.2")),
            at("spec.publishNotReadyAddresses", st.booleans()),
            *METADATA,
        ),
        unowned=("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "externalTrafficPolicy"),
    ),
    Subject(
        "",
        "v1",
        "Pod",
        "pods",
        f"{CORE}Pod",
        {"spec": {"containers": [{"name": "a", "image": "i1"}, {"name": "b", "image": "i2"}], "schedulerName": "none"}},
        st.one_of(
            at(
                "spec.containers",
                keyed(st.fixed_dictionaries({"name": one_of("a", "b"), "image": one_of("i1", "i3")}), "name"),
            ),
            at("spec.activeDeadlineSeconds", one_of(30, 20, 10)),
            *METADATA,
        ),
        st.one_of(
            at("status.phase", one_of("Pending", "Running")),
            at("status.conditions", conditions("Ready", "PodScheduled", "x.io/y")),
            at("status.podIPs", one_of([{"ip": "10.0.0.1"}], [{"ip": "10.0.0.2"}])),
        ),
        unowned=("tolerations", "priority", "preemptionPolicy", "qosClass"),
    ),
    Subject(
        "",
        "v1",
        "Node",
        "nodes",
        f"{CORE}Node",
        {},
        st.one_of(
            at(
                "spec.taints", one_of([], [{"key": "a", "effect": "NoSchedule"}], [{"key": "b", "effect": "NoExecute"}])
            ),
            at("spec.unschedulable", st.booleans()),
            *METADATA,
        ),
        st.one_of(
            at("status.capacity", st.dictionaries(one_of("cpu", "memory"), one_of("1", "2"), max_size=2)),
            at("status.conditions", conditions("Ready", "DiskPressure")),
            at("status.nodeInfo.kubeletVersion", one_of("v1", "v2")),
        ),
        namespaced=False,
    ),
)
MANAGERS = one_of("m1", "m2", "kubectl")


@dataclass(frozen=True)
class Step:
    how: str  # "apply", "force" or "put"
    manager: str
    subresource: str
    pieces: tuple[Object, ...]


def steps_of(subject: Subject) -> st.SearchStrategy[list[Step]]:
    def step(subresource: str, pieces: Pieces) -> st.SearchStrategy[Step]:
        return st.builds(
            Step,
            one_of("apply", "force", "put"),
            MANAGERS,
            st.just(subresource),
            st.lists(pieces, max_size=3).map(tuple),
        )

    main = step("", subject.pieces)
    each = st.one_of(main, main, step("status", subject.status)) if subject.status is not None else main
    return st.lists(each, min_size=2, max_size=8)


def laid_over(under: Any, over: Any) -> Any:
    """Maps by key, all else replaced: how a configuration is put together from pieces."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    return {**under, **{name: laid_over(under[name], item) if name in under else item for name, item in over.items()}}
