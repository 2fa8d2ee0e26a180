"""Decoders that read some fields: the fields of one consumer do not affect those of another."""

from __future__ import annotations

import json
from itertools import permutations

import pytest

from headgate.client.field_decoder import decoder

WIRE = {
    "kind": "Foo",
    "metadata": {"name": "a", "labels": {"x": "y"}, "annotations": {"b": "c"}},
    "spec": {"a": 1, "b": {"c": 2, "d": 3}},
    "status": {"e": 4},
}


def test_a_field_brings_all_that_is_inside_it() -> None:
    assert decoder(["spec.b"])(json.dumps(WIRE).encode()) == {
        "metadata": {"name": "a"},
        "spec": {"b": {"c": 2, "d": 3}},
    }


@pytest.mark.parametrize("fields", list(permutations(["spec", "spec.a", "spec.b.c"])), ids=str)
def test_a_field_inside_another_one_takes_nothing_away(fields: tuple[str, ...]) -> None:
    assert decoder(fields)(json.dumps(WIRE).encode())["spec"] == WIRE["spec"]


def test_all_metadata_may_be_asked_for() -> None:
    assert decoder(["metadata"])(json.dumps(WIRE).encode()) == {"metadata": WIRE["metadata"]}
