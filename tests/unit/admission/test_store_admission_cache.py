"""The cache that follows a store: after any writes, committed or not, it equals a new one."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from headgate.admission.settings import AdmissionSettings, ClusterView
from headgate.capacity.names import POD_GROUPS, QUEUES
from headgate.cli.embedded.admission_view import StoreAdmissionIndex
from headgate.store import Item, Store

QUEUE = "queues.scheduling.volcano.sh"
STORED = {QUEUE: QUEUES, "podgroups.scheduling.volcano.sh": POD_GROUPS}
NAMES = ("a", "b", "c", "d")
SETTINGS = AdmissionSettings(schedulers=frozenset({"headgate"}))


def seen(book: ClusterView) -> dict[str, Any]:
    objects = {
        (stored, name): book.get(resource, "t" if resource.namespaced else "", name)
        for stored, resource in STORED.items()
        for name in NAMES
    }
    below = {name: list(book.queues.children(name)) for name in ("root", *NAMES)}
    return {"objects": objects, "children": below, "tenants": [book.group_count(name) for name in NAMES]}


def an_item(store: Store, stored: str, namespace: str, name: str, spec: dict[str, Any]) -> Item:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    data = msgspec.json.encode({"metadata": metadata, "spec": spec})
    return Item(stored, namespace, name, "u", store.next_revision(), {}, {}, data)


def stage(store: Store, chance: random.Random) -> None:
    stored = chance.choice(list(STORED))
    namespace, name = "t" if STORED[stored].namespaced else "", chance.choice(NAMES)
    is_there = store.read_applied(stored, namespace, name) is not None
    spec = {"parent" if stored.startswith("queues") else "queue": chance.choice(NAMES)}
    item = an_item(store, stored, namespace, name, spec)
    store.stage(item, delete=is_there and chance.random() < 0.3)


@pytest.mark.parametrize("seed", range(20))
def test_the_cache_follows_staged_committed_and_rolled_back_writes(seed: int) -> None:
    chance = random.Random(seed)
    store = Store()
    book = StoreAdmissionIndex(store, SETTINGS)
    for _ in range(60):
        match chance.randrange(6):
            case 0:
                store.rollback()
            case 1:
                store.commit(store.applied)
            case 2 if chance.random() < 0.3:
                store.compact(store.committed)
            case _:
                stage(store, chance)
        if chance.random() < 0.5:
            assert seen(book.view()) == seen(StoreAdmissionIndex(store, SETTINGS).view())


def test_a_lookup_reads_only_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    for number in range(1000):
        store.stage(an_item(store, QUEUE, "", f"q{number}", {}))
    store.commit(store.applied)
    book = StoreAdmissionIndex(store, SETTINGS)
    book.view()
    read: list[str] = []
    peek = store.read_applied

    def counted(resource: str, namespace: str, name: str) -> Item | None:
        read.append(name)
        return peek(resource, namespace, name)

    monkeypatch.setattr(store, "read_applied", counted)
    book.view()
    assert read == []
    store.stage(an_item(store, QUEUE, "", "new", {}))
    read.clear()
    book.view()
    assert read == ["new"]
