"""Every kind that both servers serve, through the same life: defaults, reads, tables, writes, status, apply, deletion.

The manifests are in `harness/manifests/`; there is no kind by name here, so a kind added there is tested at once.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.manifests import KINDS, Kind
from harness.request_cases import (
    METADATA,
    METADATA_LIST,
    TABLE,
    AnyStep,
    Case,
    Edited,
    apply,
    delete,
    get,
    patch,
    post,
    put,
)
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real


def minimal_life(kind: Kind) -> list[AnyStep]:
    """Created with the least a user can write; all else is the server's."""
    return [
        post(kind.collection, kind.manifest("small", kind.minimal)).named("made"),
        get(kind.path("small")),
        get(kind.path("small"), TABLE),
        put(kind.path("small"), Edited("made")).named("again"),
        put(kind.path("small"), Edited("again", {"metadata": {"labels": {"a": "b"}}})),
        delete(kind.path("small")),
        get(kind.path("small")),
    ]


def rich_life(kind: Kind) -> list[AnyStep]:
    path = kind.path("rich")
    return [
        post(f"{kind.collection}?fieldManager=maker", kind.manifest("rich", kind.rich)).named("made"),
        get(path),
        get(f"{path}?includeObject=Object", TABLE),
        get(f"{kind.collection}?fieldSelector=metadata.name={kind.named('rich')}", TABLE),
        get(path, METADATA),
        get(f"{kind.collection}?fieldSelector=metadata.name={kind.named('rich')}", METADATA_LIST),
        patch(f"{path}?fieldManager=changer&dryRun=All", kind.change),
        patch(f"{path}?fieldManager=changer", kind.change),
        patch(f"{path}?fieldManager=changer", kind.change, "strategic"),
        put(path, Edited("made", {"metadata": {"resourceVersion": None, "annotations": {"put": "yes"}}})),
        put(path, Edited("made", {"metadata": {"annotations": {"stale": "yes"}}})),
        delete(f"{path}?dryRun=All"),
        delete(path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}),
        get(path),
    ]


def status_life(kind: Kind) -> list[AnyStep]:
    """What the status subresource takes and what it leaves alone, for kinds that have none as well."""
    path = kind.path("rich")
    status = kind.status or {"status": {"phase": "Odd"}}
    return [
        post(kind.collection, kind.manifest("rich", kind.rich)).named("made"),
        get(f"{path}/status"),
        patch(f"{path}/status?fieldManager=reporter", {**kind.change, **status}),
        put(f"{path}/status", Edited("made", {**status, "metadata": {"resourceVersion": None}})),
        patch(path, status),
        get(path, TABLE),
        delete(f"{path}?gracePeriodSeconds=0"),
    ]


def applied_life(kind: Kind) -> list[AnyStep]:
    path, rich = kind.path("rich"), kind.manifest("rich", kind.rich)
    changed = kind.manifest("rich", kind.change)
    return [
        apply(path, rich, "first"),
        apply(path, rich, "first"),
        apply(path, changed, "second"),
        apply(path, changed, "second", force=True),
        apply(path, kind.manifest("rich", kind.minimal), "first"),
        delete(f"{path}?gracePeriodSeconds=0"),
    ]


def refusals(kind: Kind) -> list[AnyStep]:
    bare = {"apiVersion": kind.api_version, "kind": kind.kind}
    wrong_kind = {**kind.manifest("small", kind.minimal), "kind": "Odd"}
    return [
        post(kind.collection, bare).in_any_order(),
        post(kind.collection, {**bare, "metadata": {"name": "Bad_Name!"}}).in_any_order(),
        post(kind.collection, {**kind.manifest("empty", {}), "spec": {}}).in_any_order(),
        post(f"{kind.collection}?fieldValidation=Strict", {**kind.manifest("small", kind.minimal), "odd": 1}),
        post(kind.collection, wrong_kind),
        post(f"{kind.collection}?dryRun=All", kind.manifest("small", kind.minimal)),
        post(kind.collection, kind.manifest("small", kind.minimal)).named("made"),
        post(kind.collection, kind.manifest("small", kind.minimal)),
        put(kind.path("missing"), Edited("made", {"metadata": {"name": kind.named("missing"), "uid": None}})),
        put(kind.path("small"), Edited("made", {"metadata": {"name": kind.named("other")}})),
        patch(kind.path("missing"), {"metadata": {"labels": {"a": "b"}}}),
        delete(kind.path("missing")),
        delete(kind.path("small"), {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}),
        delete(f"{kind.path('small')}?gracePeriodSeconds=0"),
    ]


def collected(kind: Kind) -> list[AnyStep]:
    labels = {"metadata": {"labels": {"of": "{ns}"}}}
    chosen = f"{kind.collection}?labelSelector=of={{ns}}"
    bodies = [
        {**kind.minimal, "metadata": {**kind.minimal.get("metadata", {}), **labels["metadata"]}} for _ in range(3)
    ]
    return [
        *(post(kind.collection, kind.manifest(f"c{index}", body)) for index, body in enumerate(bodies)),
        get(chosen),
        get(f"{chosen}&limit=2"),
        get(chosen, TABLE),
        delete(f"{chosen}&dryRun=All"),
        delete(chosen),
        get(chosen),
    ]


LIVES: dict[str, Callable[[Kind], list[AnyStep]]] = {
    "the minimal one gets its defaults": minimal_life,
    "the rich one is kept, changed and deleted": rich_life,
    "its status is apart": status_life,
    "it is applied by two managers": applied_life,
    "what is wrong with it is refused": refusals,
    "several are listed and deleted together": collected,
}
CASES = [
    Case(f"{kind.kind} {kind.api_version}: {sentence}", tuple(life(kind)))
    for kind in KINDS
    for sentence, life in LIVES.items()
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_kind_has_the_same_life_cycle_on_both_servers(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
