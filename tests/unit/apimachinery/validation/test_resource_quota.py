"""Scopes of a ResourceQuota and the resources that it limits."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.apimachinery.validation.resource_quota import validate_resource_quota

_EXPRESSION = {"scopeName": "BestEffort", "operator": "Exists"}


@pytest.mark.parametrize(
    "scopes",
    [{"scopes": ["BestEffort"] * 200}, {"scopeSelector": {"matchExpressions": [_EXPRESSION] * 200}}],
    ids=["scopes", "scope selector"],
)
def test_scopes_that_cover_none_of_many_resources_give_a_bounded_number_of_errors(scopes: dict[str, Any]) -> None:
    hard = {f"hugepages-{number}": "1" for number in range(200)}
    quota = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"hard": hard, **scopes}}
    errors = validate_resource_quota(quota)
    assert len(errors) == 10_000
    assert str(errors[0]).endswith("unsupported scope applied to resource")
