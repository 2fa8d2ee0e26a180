"""Admission webhooks: who is asked what, and what the answers do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.both import Both
from harness.objects import CONFIG_MAPS, PODS, config_map, pod
from harness.scenario import Edited, apply, delete, get, patch, post, put
from real.hook_cases import (
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
    patches,
    rule,
)

pytestmark = pytest.mark.real

MAPS = rule("configmaps")
LABEL = add("/metadata/labels", {"hooked": "yes"})

ASKED = [
    hook_case(
        "a validating webhook sees every write of a map",
        {"/see": allows},
        configured(VALIDATING, hook("/see", MAPS)),
        post(CONFIG_MAPS, config_map("a")).named("a"),
        put(f"{CONFIG_MAPS}/a", Edited("a", {"data": {"k": "w"}})),
        patch(f"{CONFIG_MAPS}/a", {"data": {"x": "y"}}),
        patch(f"{CONFIG_MAPS}/a?dryRun=All&fieldManager=me&fieldValidation=Strict", {"data": {"x": "z"}}),
        apply(f"{CONFIG_MAPS}/b", config_map("b")),
        apply(f"{CONFIG_MAPS}/b", config_map("b", {"k": "v2"})),
        delete(f"{CONFIG_MAPS}/a"),
        delete(f"{CONFIG_MAPS}?labelSelector=none=here"),
        delete(CONFIG_MAPS),
    ),
    hook_case(
        "a mutating webhook changes a map",
        {"/label": patches(LABEL)},
        configured(MUTATING, hook("/label", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
        get(f"{CONFIG_MAPS}/a"),
        apply(f"{CONFIG_MAPS}/b", config_map("b")),
        apply(f"{CONFIG_MAPS}/b", config_map("b", {"k": "v2"})),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": None}}),
        delete(f"{CONFIG_MAPS}/a"),
    ),
    hook_case(
        "a pod as both kinds of webhooks see it",
        {"/m": allows, "/v": allows},
        configured(MUTATING, hook("/m", rule("pods", "pods/*"))),
        configured(VALIDATING, hook("/v", rule("*/*"))),
        post(PODS, pod("p")),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
    ),
]
REFUSALS: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "a message": {"message": "not today"},
    "a reason": {"reason": "Forbidden"},
    "code and message": {"code": 403, "reason": "Forbidden", "message": "no way"},
    "a low code": {"code": 200, "message": "odd"},
    "details": {"code": 422, "message": "x", "details": {"name": "n", "kind": "K", "causes": [{"field": "a"}]}},
}
DENIED = [
    hook_case(
        f"a refusal: {name}",
        {"/no": denies(**status)},
        configured(VALIDATING, hook("/no", MAPS)),
        post(CONFIG_MAPS, config_map("a")),
    )
    for name, status in REFUSALS.items()
]


@pytest.fixture(scope="module")
def bench(both: Both, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HookBench]:
    with hook_bench(both, tmp_path_factory.mktemp("hooks")) as running:
        yield running


@pytest.mark.parametrize("case", [*ASKED, *DENIED], ids=lambda case: case.name)
def test_webhooks_as_on_a_real_server(bench: HookBench, case: HookCase) -> None:
    bench.agree(case)
