"""After a commit the event loop decodes only the rules of roles."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from headgate.apiserver.authz.rules import PolicyRule, rules_of, stored_rules
from sized_requests import rules

pytestmark = pytest.mark.measured

_SELECTORS = [{"matchLabels": {"a": f"b{number}"}} for number in range(20_000)]
_LARGE: dict[str, dict[str, Any]] = {
    "rules": {"rules": rules(12_000)},
    "selectors": {"aggregationRule": {"clusterRoleSelectors": _SELECTORS}, "rules": None},
    "managed fields": {"metadata": {"managedFields": [{"fieldsV1": {f"f:{i}": {}}} for i in range(20_000)]}},
}


def _whole(data: bytes) -> tuple[PolicyRule, ...]:
    return rules_of(msgspec.json.decode(data))


def _cost_s(act: Callable[[], object]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began


@pytest.mark.parametrize("name", _LARGE)
def test_the_rules_of_a_large_role_are_decoded_without_the_rest_of_it(name: str) -> None:
    data = msgspec.json.encode({key: value for key, value in _LARGE[name].items() if value is not None})
    assert stored_rules(data) == _whole(data)
    gc.collect()
    gc.disable()
    try:
        rounds = [(_cost_s(lambda: stored_rules(data)), _cost_s(lambda: _whole(data))) for _ in range(7)]
    finally:
        gc.enable()
    assert min(new for new, _ in rounds) < 0.75 * min(whole for _, whole in rounds)


@pytest.mark.parametrize(
    "role",
    [
        {},
        {"rules": None},
        {"rules": []},
        {"rules": [{"verbs": ["get"], "apiGroups": None, "resources": ["pods"]}]},
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/version"]}, None]},
        {"rules": [{"verbs": ["*"], "apiGroups": ["", "apps"], "resources": ["*"], "resourceNames": ["a"]}]},
    ],
)
def test_rules_are_read_in_every_form_in_which_they_are_stored(role: dict[str, Any]) -> None:
    assert stored_rules(msgspec.json.encode(role)) == rules_of(role)
