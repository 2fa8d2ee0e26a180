"""v1beta1 and v1beta2 of kueue.x-k8s.io: whatever an object says, it says it again after a round trip."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.quota.kinds.conversion import FROM_OLDER, FROM_STORED, convert
from headgate.quota.kinds.definitions import definitions
from headgate.quota.kinds.names import API_VERSION, OLDER_API_VERSION

Object = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "main", "example.com/c"])
ANYTHING = st.dictionaries(NAMES, st.integers(0, 3) | NAMES | st.none(), max_size=2)
SCHEMAS = {
    (each["spec"]["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
    for each in definitions(both=True)
    for version in each["spec"]["versions"]
}
KINDS = sorted({kind for kind, _ in SCHEMAS})


def drawn(schema: Object) -> st.SearchStrategy[Any]:
    """What a structural schema lets in, more or less; patterns are not looked at."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 9) | st.sampled_from(["1", "500m"])
    match schema.get("type"):
        case "integer":
            return st.integers(0, 20)
        case "boolean":
            return st.booleans()
        case "array":
            items = drawn(schema["items"])
            if schema.get("x-kubernetes-list-map-keys") == ["name"]:
                return st.lists(items, max_size=3, unique_by=lambda each: each["name"])
            return st.lists(items, max_size=2)
        case "object":
            return drawn_object(schema)
    return NAMES


def drawn_object(schema: Object) -> st.SearchStrategy[Object]:
    if "additionalProperties" in schema:
        return st.dictionaries(NAMES, drawn(schema["additionalProperties"]), max_size=2)
    parts = schema.get("properties")
    if parts is None:
        return ANYTHING
    needed = {*schema.get("required", ()), *({"name"} & parts.keys())}
    return st.fixed_dictionaries(
        {name: drawn(part) for name, part in parts.items() if name in needed},
        optional={name: drawn(part) for name, part in parts.items() if name not in needed},
    )


def objects(kind: str, version: str) -> st.SearchStrategy[Object]:
    schema = SCHEMAS[kind, version]
    parts = {k: v for k, v in schema["properties"].items() if k not in ("apiVersion", "kind", "metadata")}
    metadata = st.fixed_dictionaries(
        {"name": NAMES},
        optional={"annotations": st.dictionaries(NAMES, NAMES, min_size=1), "labels": st.dictionaries(NAMES, NAMES)},
    )
    said = {"apiVersion": st.just(f"kueue.x-k8s.io/{version}"), "kind": st.just(kind), "metadata": metadata}
    return st.fixed_dictionaries(said, optional={name: drawn(part) for name, part in parts.items()})


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_v1beta1_comes_back_as_it_was(kind: str, data: st.DataObject) -> None:
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
def test_v1beta2_comes_back_as_it_was(kind: str, data: st.DataObject) -> None:
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
def test_annotations_that_somebody_made_up_change_neither_names_nor_versions_and_stop_nothing(
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
