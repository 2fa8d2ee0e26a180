"""Field labels of kinds that share a storage: each is found among the fields that are kept with an item."""

from __future__ import annotations

import pytest

from embedded import Embedded
from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import ServedKind
from headgate.apiserver.verbs.reading import stored_label_names

VIEWS = [kind for kind in BUILTIN.kinds() if not kind.is_stored_version and kind.is_stored]


@pytest.mark.parametrize("kind", VIEWS, ids=lambda kind: f"{kind.plural}.{kind.version}.{kind.group}")
def test_every_field_label_of_a_version_that_is_not_stored_has_its_value_kept(kind: ServedKind) -> None:
    stored = BUILTIN.stored_kind(kind)
    kept = stored_label_names(kind, stored)
    assert kept.keys() == {each.label for each in kind.field_labels}
    assert set(kept.values()) <= {each.label for each in stored.field_labels}


@pytest.mark.parametrize("selector", ["reportingController=c", "regarding.name=p", "regarding.kind=Pod"])
def test_events_are_found_by_the_field_labels_of_their_newer_version(selector: str) -> None:
    server = Embedded()
    about = {"kind": "Pod", "namespace": "t", "name": "p"}
    wire = {"metadata": {"name": "e", "namespace": "t"}, "involvedObject": about, "reportingComponent": "c"}
    assert server.post("/api/v1/namespaces/t/events", wire).status == 201
    path = "/apis/events.k8s.io/v1/namespaces/t/events"
    assert len(server.get(path, fieldSelector=selector).body["items"]) == 1
    assert server.get(path, fieldSelector=f"{selector}-other").body["items"] == []
