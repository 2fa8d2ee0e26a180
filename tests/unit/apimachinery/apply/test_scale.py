from __future__ import annotations

from typing import Any

from headgate.apimachinery.apply import parent_entries, scale_entries
from headgate.apimachinery.apply.field_sets import FieldSet
from headgate.apimachinery.apply.scale import REPLICAS


def entry(manager: str, operation: str, fields: Any, version: str = "apps/v1", **more: str) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


PLACES = {"apps/v1": REPLICAS}
COUNT: FieldSet = {"f:spec": {"f:replicas": {}}}
COUNT_AND_MORE: FieldSet = {"f:spec": {"f:paused": {}, "f:replicas": {}}}


def test_only_owners_of_the_count_own_the_scale() -> None:
    entries = [entry("a", "Apply", COUNT_AND_MORE), entry("b", "Update", {"f:spec": {"f:paused": {}}})]
    assert scale_entries(entries, PLACES) == [entry("a", "Apply", COUNT, "autoscaling/v1")]


def test_a_new_owner_of_the_scale_takes_the_count_from_the_old_one() -> None:
    before = [entry("a", "Update", COUNT_AND_MORE)]
    after = [entry("b", "Update", COUNT, "autoscaling/v1", subresource="scale")]
    new = entry("b", "Update", COUNT, subresource="scale")
    del new["time"]  # the time of an entry that comes from a Scale is not carried over
    assert parent_entries(before, after, "apps/v1", PLACES) == [new, entry("a", "Update", {"f:spec": {"f:paused": {}}})]


def test_an_applier_that_kept_the_count_keeps_its_entry() -> None:
    before = [entry("a", "Apply", COUNT_AND_MORE)]
    assert parent_entries(before, scale_entries(before, PLACES), "apps/v1", PLACES) == before


def test_an_owner_of_the_count_alone_loses_its_entry_with_it() -> None:
    assert parent_entries([entry("a", "Update", COUNT)], [], "apps/v1", PLACES) == []
    assert parent_entries(None, None, "apps/v1", PLACES) == []


def test_entries_of_removed_versions_are_dropped() -> None:
    assert parent_entries([entry("a", "Update", COUNT, "extensions/v1beta1")], [], "apps/v1", PLACES) == []
