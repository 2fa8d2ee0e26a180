"""Random ``volcano-scheduler.conf`` files: nothing raises, what was written is read, and every error has its line."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from headgate.capacity.conf import ACTIONS, ENABLE_OPTIONS, EXTENSION_POINTS, PluginOption
from headgate.cli.wiring.scheduler_config import read_configuration
from headgate.scheduling.cluster.cluster import Cluster
from headgate.scheduling.config.plugin_registry import BUILT_IN
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.scheduling.config.volcano_arguments import SWITCHES, WEIGHTS
from headgate.scheduling.config.volcano_conf import OPTIONS
from headgate.scheduling.profile import new_framework

Object = dict[str, Any]

WORDS = st.sampled_from(
    [
        "",
        "name",
        "plugins",
        "arguments",
        "tiers",
        "actions",
        "configurations",
        "metrics",
        *EXTENSION_POINTS,
        *ACTIONS,
        *OPTIONS,
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=5)
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=20
)
ARGUMENTS = {
    "nodeorder": st.dictionaries(st.sampled_from(sorted(WEIGHTS)), st.integers(0, 100)),
    "predicates": st.dictionaries(st.sampled_from(sorted(SWITCHES)), st.booleans()),
}
OTHER_ACTIONS = st.sampled_from([each for each in ACTIONS if each != "allocate"])
OPTION_OF = {point: option for option, point in OPTIONS.items()}


@st.composite
def plugins(draw: st.DrawFn, name: str) -> Object:
    off = draw(
        st.sets(st.sampled_from(EXTENSION_POINTS[name]).filter(ENABLE_OPTIONS.__contains__))
        if ENABLE_OPTIONS & {*EXTENSION_POINTS[name]}
        else st.just(set())
    )
    return {
        "name": name,
        "arguments": draw(ARGUMENTS.get(name, st.just({}))),
        **{OPTION_OF[each]: False for each in off},
    }


@st.composite
def confs(draw: st.DrawFn) -> Object:
    names = draw(st.permutations([name for name in EXTENSION_POINTS if name != "proportion"]))
    chosen = [draw(plugins(name)) for name in names[: draw(st.integers(1, len(names)))]]
    cut = draw(st.integers(0, len(chosen)))
    actions = draw(st.permutations(["allocate", *sorted(draw(st.sets(OTHER_ACTIONS)))]))
    return {"actions": ", ".join(actions), "tiers": [{"plugins": chosen[:cut]}, {"plugins": chosen[cut:]}]}


@given(st.dictionaries(WORDS, ANYTHING, max_size=4) | confs().map(lambda conf: {**conf, "tiers": conf["actions"]}))
def test_nothing_raises_and_every_complaint_about_a_conf_has_a_line_of_the_file(document: Object) -> None:
    text = yaml.safe_dump({"actions": "x", **document}).encode()
    read = read_configuration(text, BUILT_IN, ("headgate",))
    if not isinstance(read, KubeSchedulerConfiguration):
        assert all(each.line is not None and 1 <= each.line <= text.count(b"\n") for each in read), text


@given(confs())
def test_what_was_written_is_read_and_can_run(document: Object) -> None:
    read = read_configuration(yaml.safe_dump(document).encode(), BUILT_IN, ("headgate",))
    assert isinstance(read, KubeSchedulerConfiguration), [each.at("-") for each in read]
    (profile,) = read.profiles
    settings = profile.queues
    assert settings is not None
    assert settings.actions == tuple(document["actions"].split(", "))
    assert [[_written(each) for each in tier] for tier in settings.tiers] == [
        tier["plugins"] for tier in document["tiers"]
    ]
    assert new_framework(profile, Cluster()).unknown_plugins == ()


def _written(plugin: PluginOption) -> Object:
    return {"name": plugin.name, "arguments": dict(plugin.arguments), **{OPTION_OF[each]: False for each in plugin.off}}
