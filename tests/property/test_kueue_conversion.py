"""v1beta1 and v1beta2 of kueue.x-k8s.io: every object is unchanged after a round trip."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.quota.kinds.conversion import FROM_OLDER, FROM_STORED, convert
from headgate.quota.kinds.names import API_VERSION, OLDER_API_VERSION
from headgate.quota.kinds.validation import validate_object
from property.kueue_objects import KINDS, objects

Object = dict[str, Any]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_v1beta1_is_unchanged_after_both_conversions(kind: str, data: st.DataObject) -> None:
    obj = data.draw(objects(kind, "v1beta1"))
    before = copy.deepcopy(obj)
    there = convert(obj, API_VERSION)
    assert there["apiVersion"] == API_VERSION
    assert obj == before
    assert convert(there, OLDER_API_VERSION) == obj
    assert convert(convert(there, OLDER_API_VERSION), API_VERSION) == there


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_v1beta2_is_unchanged_after_both_conversions(kind: str, data: st.DataObject) -> None:
    obj = data.draw(objects(kind, "v1beta2"))
    before = copy.deepcopy(obj)
    there = convert(obj, OLDER_API_VERSION)
    assert there["apiVersion"] == OLDER_API_VERSION
    assert obj == before
    assert convert(there, API_VERSION) == obj


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_what_one_version_writes_over_the_other_is_never_undone_by_what_was_kept(
    kind: str, data: st.DataObject
) -> None:
    """A stored object is written anew in v1beta2 by a client that keeps its annotations: all of it is read again."""
    first = convert(data.draw(objects(kind, "v1beta1")), API_VERSION)
    second = data.draw(objects(kind, "v1beta2"))
    kept = (first["metadata"].get("annotations") or {}).get(FROM_OLDER)
    if kept is not None:
        metadata = second["metadata"]
        second["metadata"] = {**metadata, "annotations": {**metadata.get("annotations", {}), FROM_OLDER: kept}}
    again = convert(convert(second, OLDER_API_VERSION), API_VERSION)

    def bare(obj: Object) -> Object:
        annotations = {k: v for k, v in (obj["metadata"].get("annotations") or {}).items() if k != FROM_OLDER}
        return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}}

    assert bare(again) == bare(second)


@settings(deadline=None, max_examples=150)
@given(
    data=st.data(),
    kind=st.sampled_from(KINDS),
    text=st.text(max_size=30)
    | st.sampled_from(
        [
            "[]",
            "{}",
            '[{"at":[]}]',
            '[{"at":["metadata","name"],"now":"a","was":"b"}]',
            '[{"at":["spec"],"was":5}]',
            '[{"at":["spec","podSets",["a"]],"was":5}]',
            '[{"at":["spec","podSets",["a"],"count"],"was":5}]',
            '[{"at":["spec","x"],"was":null}]',
            '[{"at":["spec",["a"],"x"],"was":1}]',
        ]
    ),
)
def test_forged_annotations_change_neither_names_nor_versions_and_break_no_conversion(
    data: st.DataObject, kind: str, text: str
) -> None:
    version, key, other = data.draw(
        st.sampled_from([("v1beta1", FROM_STORED, API_VERSION), ("v1beta2", FROM_OLDER, OLDER_API_VERSION)])
    )
    obj = data.draw(objects(kind, version))
    obj["metadata"] = {**obj["metadata"], "annotations": {key: text}}
    there = convert(obj, other)
    assert (there["apiVersion"], there["kind"], there["metadata"]["name"]) == (other, kind, obj["metadata"]["name"])
    assert isinstance(there.get("spec", {}), dict)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_validation_never_raises_and_accepts_unchanged_objects(kind: str, data: st.DataObject) -> None:
    old, new = (data.draw(objects(kind, version)) for version in ("v1beta2", "v1beta1"))
    for each in validate_object(new, old).problems + validate_object(old, None).problems:
        assert str(each)
    assert validate_object(old, old).problems == []
    assert validate_object(convert(old, OLDER_API_VERSION), old).problems == []
