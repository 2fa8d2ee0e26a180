"""For every document the parser returns a configuration or errors, and never raises."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.scheduling.config.plugin_args import READERS
from headgate.scheduling.config.plugin_registry import BUILT_IN, DEFAULT_ENABLED, POINTS, Registry
from headgate.scheduling.config.scheduler_configuration import parse_configuration
from headgate.scheduling.config.types import KubeSchedulerConfiguration

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
FIELDS = (
    *("profiles", "plugins", "pluginConfig", "name", "args", "enabled", "disabled", "weight", "schedulerName"),
    *("scoringStrategy", "resources", "requestedToCapacityRatio", "shape", "utilization", "score", "type"),
    *("defaultConstraints", "maxSkew", "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
    *("nodeSelectorTerms", "matchExpressions", "matchFields", "key", "operator", "values", "preference"),
    *("leaderElection", "leaseDuration", "clientConnection", "burst", "parallelism", "extenders"),
    *("preferredDuringSchedulingIgnoredDuringExecution", "ignoredResources", "hardPodAffinityWeight", *POINTS),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 200),
    st.floats(allow_nan=False),
    st.sampled_from(["", "*", "In", "15s", "List", *BUILT_IN]),
    st.text(max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)),
    max_leaves=20,
)
DISABLED = st.fixed_dictionaries({"name": st.sampled_from(["*", *sorted(BUILT_IN)])})


def lists(point: str) -> st.SearchStrategy[dict[str, Any]]:
    """A list of an extension point, with plugins that implement it, each once."""
    serving = sorted(name for name, entry in BUILT_IN.items() if point in entry.points or point == "multiPoint")
    chosen = st.lists(st.sampled_from(serving), unique=True, max_size=3) if serving else st.just([])
    enabled = chosen.map(lambda names: [{"name": name} for name in names])
    return st.fixed_dictionaries({}, optional={"enabled": enabled, "disabled": st.lists(DISABLED, max_size=3)})


PLUGINS = st.fixed_dictionaries({}, optional={point: lists(point) for point in (*POINTS, "multiPoint")})


@given(VALUES, st.sampled_from(sorted(READERS)))
def test_no_document_makes_the_parser_raise(value: Any, plugin: str) -> None:
    for document in (
        value,
        {**HEADER, "profiles": value, "leaderElection": value, "clientConnection": value},
        {**HEADER, "profiles": [value, {"plugins": value, "pluginConfig": value}]},
        {**HEADER, "profiles": [{"pluginConfig": [{"name": plugin, "args": value}]}]},
    ):
        read = parse_configuration(document)
        assert isinstance(read, KubeSchedulerConfiguration) or read
        if isinstance(read, list):
            assert all(str(each) for each in read)


def slowly(plugins: dict[str, Any], point: str, registry: Registry) -> set[str]:
    """The plugins of an extension point, computed for one plugin at a time."""

    def listed(where: str, what: str) -> list[str]:
        return [each["name"] for each in plugins.get(where, {}).get(what, [])]

    def runs(name: str) -> bool:
        if point not in registry[name].points:
            return False
        if name in listed(point, "enabled"):
            return True
        if {name, "*"} & set(listed(point, "disabled")):
            return False
        if name in listed("multiPoint", "enabled"):
            return True
        if {name, "*"} & set(listed("multiPoint", "disabled")):
            return False
        return any(name == default for default, _ in DEFAULT_ENABLED)

    return {name for name in registry if runs(name)}


@given(PLUGINS)
def test_the_nearest_list_decides_which_plugins_run(plugins: dict[str, Any]) -> None:
    read = parse_configuration({**HEADER, "profiles": [{"plugins": plugins}]})
    if not isinstance(read, KubeSchedulerConfiguration):
        assert not (slowly(plugins, "queueSort", BUILT_IN) and slowly(plugins, "bind", BUILT_IN))
        return
    for point in POINTS:
        names = [name for name, _ in read.profiles[0].points[point]]
        assert len(names) == len(set(names))
        assert set(names) == slowly(plugins, point, BUILT_IN)
