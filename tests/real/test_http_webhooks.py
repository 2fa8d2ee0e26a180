"""Admission webhooks: which are called with what, in which order, and what a patch does. Another suite has the
failures.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.objects import (
    CONFIG_MAPS,
    PODS,
    config_map,
    pod,
)
from harness.request_cases import apply, delete, get, patch, post
from harness.server_pair import ServerPair
from real.custom_kinds import GROUP, THINGS, define, multi, multis, thing
from real.webhook_cases import (
    MUTATING,
    VALIDATING,
    HookBench,
    HookCase,
    add,
    allows,
    configured,
    denies,
    hook,
    hook_bench,
    hook_case,
    noting,
    patches,
    removed,
    rule,
    warns,
)
from real.webhook_selection_cases import (
    ASKED,
    LABEL,
    MAPS,
    SELECTED,
)

pytestmark = pytest.mark.real

MUTATED = [
    hook_case(
        "a label on every map",
        {"/label": patches(LABEL)},
        configured(MUTATING, hook("/label", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
        get(f"{CONFIG_MAPS}/a"),
        apply(f"{CONFIG_MAPS}/b", config_map("b")),
        apply(f"{CONFIG_MAPS}/b", config_map("b", {"k": "v2"})),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": None}}),
        patch(f"{CONFIG_MAPS}/a", [{"op": "add", "path": "/data/x", "value": "y"}], "json"),
        delete(f"{CONFIG_MAPS}/a"),
    ),
    hook_case(
        "webhooks change what an applier owns",
        {"/data": patches(add("/data/k", "hooked"))},
        apply(f"{CONFIG_MAPS}/a", config_map("a"), "one"),
        configured(MUTATING, hook("/data", MAPS)),
        apply(f"{CONFIG_MAPS}/a", config_map("a", {"k": "mine"}), "one"),
        apply(f"{CONFIG_MAPS}/a", config_map("a", {"k": "mine"}), "two"),
        apply(f"{CONFIG_MAPS}/a", config_map("a", {"other": "x"}), "one"),
    ),
    hook_case(
        "the order of mutating webhooks",
        {path: noting("order", path[1:]) for path in ("/one", "/two", "/three")},
        configured(MUTATING, hook("/three", MAPS), name="{ns}-b"),
        configured(MUTATING, hook("/two", MAPS), hook("/one", MAPS), name="{ns}-a"),
        post(CONFIG_MAPS, {**config_map("a"), "metadata": {"name": "a", "annotations": {"order": "0"}}}),
    ),
    hook_case(
        "webhooks that want to be asked again",
        {path: noting("order", path[1:], once=True) for path in ("/never", "/again", "/last")},
        configured(
            MUTATING,
            hook("/never", MAPS),
            hook("/again", MAPS, reinvocationPolicy="IfNeeded"),
            hook("/last", MAPS, reinvocationPolicy="IfNeeded"),
        ),
        post(CONFIG_MAPS, {**config_map("a"), "metadata": {"name": "a", "annotations": {"order": "0"}}}),
    ),
    hook_case(
        "the built-in plugins have another look at what webhooks left",
        {"/strip": patches({"op": "remove", "path": "/spec/tolerations"}), "/see": allows},
        configured(MUTATING, hook("/see", rule("pods"), reinvocationPolicy="IfNeeded"), hook("/strip", rule("pods"))),
        post(PODS, pod("p")),
    ),
    hook_case(
        "a container that a webhook adds is completed",
        {"/sidecar": patches(add("/spec/containers/-", {"name": "side", "image": "side"}))},
        configured(MUTATING, hook("/sidecar", rule("pods", operations=("CREATE",)))),
        post(PODS, pod("p")),
    ),
    hook_case(
        "what a webhook makes is validated",
        {"/bad": patches(add("/data", {"not/a/key": "v"}))},
        configured(MUTATING, hook("/bad", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "a field that nobody knows",
        {"/odd": patches(add("/odd", 1), add("/metadata/odder", {"a": 1}))},
        configured(MUTATING, hook("/odd", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "another name, another namespace",
        {"/name": patches(add("/metadata/name", "other")), "/space": patches(add("/metadata/namespace", "default"))},
        configured(
            MUTATING,
            hook("/name", MAPS, objectSelector={"matchLabels": {"c": "name"}}),
            hook("/space", MAPS, objectSelector={"matchLabels": {"c": "space"}}),
        ),
        post(CONFIG_MAPS, config_map("a", labels={"c": "name"})),
        post(CONFIG_MAPS, config_map("b", labels={"c": "space"})),
        patch(f"{CONFIG_MAPS}/other", {"data": {"a": "b"}}),
    ),
    hook_case(
        "owners that a webhook breaks",
        {"/break": patches(add("/metadata/managedFields/0/operation", "Guess"))},
        configured(MUTATING, hook("/break", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "owner references given twice by a webhook",
        {
            "/twice": patches(
                add(
                    "/metadata/ownerReferences",
                    [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}] * 2,
                )
            )
        },
        configured(MUTATING, hook("/twice", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
    ),
    hook_case(
        "a configuration that is changed and removed",
        {"/label": patches(LABEL), "/no": denies()},
        configured(MUTATING, hook("/label", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
        removed(MUTATING),
        post(CONFIG_MAPS, config_map("b")),
    ),
    hook_case(
        "a refusal of a mutating webhook, and warnings",
        {"/warn": warns("one", "two", "one"), "/no": denies(message="never"), "/late": allows},
        configured(MUTATING, hook("/warn", MAPS), hook("/no", MAPS), hook("/late", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
    ),
]


CUSTOM = [
    hook_case(
        "a custom object is changed and completed",
        {"/m": patches(add("/spec/word", "green"), add("/spec/nested", {}))},
        configured(MUTATING, hook("/m", rule("things", group=GROUP))),
        post(THINGS, thing("a")),
        apply(f"{THINGS}/b", thing("b", text="abc")),
        patch(f"{THINGS}/a", {"spec": {"count": 3}}),
        get(f"{THINGS}/a"),
        delete(f"{THINGS}/a"),
    ),
    hook_case(
        "what a webhook makes of a custom object is validated",
        {"/m": patches(add("/spec/word", "mauve"))},
        configured(MUTATING, hook("/m", rule("things", group=GROUP))),
        post(THINGS, thing("a")),
    ),
    hook_case(
        "a custom object in the version that a rule names",
        {"/v": allows},
        configured(VALIDATING, hook("/v", {**rule("multis", group=GROUP), "apiVersions": ["v1"]})),
        post(multis("v2"), multi("a", "v2")),
        delete(f"{multis('v2')}/a"),
    ),
]


@pytest.fixture(scope="module")
def bench(servers: ServerPair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookBench]:
    servers.on_each(define)
    with hook_bench(servers, tmp_path_factory.mktemp("hooks")) as running:
        yield running


@pytest.mark.parametrize("case", [*ASKED, *SELECTED, *MUTATED, *CUSTOM], ids=lambda case: case.name)
def test_webhooks_as_on_a_real_server(bench: HookBench, case: HookCase) -> None:
    bench.agree(case)
