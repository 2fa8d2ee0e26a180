"""``kubectl apply --server-side`` after client-side ``kubectl apply``."""

from __future__ import annotations

import json
from typing import Any

from headgate.apimachinery.apply.last_applied import ANNOTATION, MAX_ANNOTATIONS_BYTES
from unit.apimachinery.apply.objects import (
    CONFIG_MAP,
    applied,
    apply_error,
    create,
    make_config_map,
    owners,
    update,
    with_uid,
)


def client_side(**data: str) -> dict[str, Any]:
    config = make_config_map(**data)
    annotated = {**config, "metadata": {"name": "a", "annotations": {ANNOTATION: json.dumps(config), "other": "x"}}}
    return create(CONFIG_MAP, annotated, "kubectl-client-side-apply")


def test_kubectl_takes_over_the_fields_of_its_client_side_apply() -> None:
    taken = applied(CONFIG_MAP, client_side(x="1", y="1"), make_config_map(x="2"), "kubectl")
    assert taken["data"] == {"x": "2", "y": "1"}
    assert owners(taken)["Apply kubectl"] == {"f:data": {"f:x": {}}}


def test_other_managers_conflict_with_client_side_apply() -> None:
    error = apply_error(CONFIG_MAP, client_side(x="1"), make_config_map(x="2"), "argo").error
    assert 'conflict with "kubectl-client-side-apply" using v1: .data.x' in error.message


def test_only_fields_that_changed_since_are_conflicts() -> None:
    live = client_side(x="1", y="1")
    live = with_uid(update(CONFIG_MAP, live, {**live, "data": {"x": "1", "y": "edited"}}, "editor"))
    error = apply_error(CONFIG_MAP, live, make_config_map(x="2", y="2"), "kubectl").error
    assert error.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.y'


def test_the_annotation_is_updated_by_an_apply() -> None:
    config = {**make_config_map(x="<2>"), "metadata": {"name": "a", "annotations": {ANNOTATION: "mine", "b": "c"}}}
    taken = applied(CONFIG_MAP, client_side(x="1"), config, "kubectl", force=True)
    assert taken["metadata"]["annotations"][ANNOTATION] == (
        '{"apiVersion":"v1","data":{"x":"\\u003c2\\u003e"},"kind":"ConfigMap",'
        '"metadata":{"annotations":{"b":"c"},"name":"a"}}\n'
    )
    assert taken["metadata"]["annotations"]["other"] == "x"


def test_the_annotation_is_removed_if_it_would_be_too_large() -> None:
    large = make_config_map(x="1" * MAX_ANNOTATIONS_BYTES)
    taken = applied(CONFIG_MAP, client_side(x="1"), large, "kubectl", force=True)
    assert taken["metadata"]["annotations"] == {"other": "x"}


def test_without_the_annotation_nothing_is_added() -> None:
    live = create(CONFIG_MAP, make_config_map(x="1"), "other")
    assert "annotations" not in applied(CONFIG_MAP, live, make_config_map(y="1"), "kubectl")["metadata"]


def test_an_invalid_annotation_allows_no_take_over() -> None:
    texts = ["not json", "[]", '{"apiVersion":"v2","kind":"ConfigMap"}', '{"apiVersion":"v1","kind":"ConfigMap","q":1}']
    for text in texts:
        live = client_side(x="1")
        live["metadata"]["annotations"][ANNOTATION] = text
        assert apply_error(CONFIG_MAP, live, make_config_map(x="2"), "kubectl").error.code == 409
