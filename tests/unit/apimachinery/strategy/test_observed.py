"""Every kind, compared with responses of kube-apiserver v1.35.8 to manifests and to manifests with one change.

The responses are in ``observed/``, one file per API group, one case per line. A case has the changed field; the causes
must be equal and in the same order.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from headgate.apimachinery.strategy.cel_warnings import policy_binding_warnings, policy_warnings
from unit.apimachinery.strategy.server import NOW, Object, WriteResult, create, masked, update

OBSERVED = Path(__file__).parent / "observed"
FILES = sorted(path for path in OBSERVED.glob("*.json") if path.stem != "jobs")
KINDS = [(path.stem, entry) for path in FILES for entry in json.loads(path.read_text())]


def _label(group: str, entry: Object) -> str:
    return f"{group}-{entry['kind']}-{entry['object']['metadata']['name'].rpartition('-')[2]}"


def _cases(operation: str) -> list[Any]:
    """One test per kind and file, not per case, because there are two thousand cases."""
    return [pytest.param(entry, id=_label(group, entry)) for group, entry in KINDS if entry.get(operation)]


def _edited(obj: Object, edit: list[Any]) -> Object:
    path, change = edit
    edited = copy.deepcopy(obj)
    owner: Any = edited
    for step in path[:-1]:
        owner = owner[step]
    if "value" in change:
        owner[path[-1]] = change["value"]
    else:
        del owner[path[-1]]
    return edited


def _printable(result: WriteResult) -> dict[str, Any]:
    if result.error:
        return {"code": 400, "message": result.error}
    return {"code": 422, "causes": result.problems} if result.problems else {"code": "accepted"}


def _expected(case: dict[str, Any]) -> dict[str, Any]:
    if case["code"] < 300:
        return {"code": "accepted"}
    causes = [[field, reason, masked(message)] for field, reason, message in case.get("causes", [])]
    return {"code": case["code"], "causes": causes} if causes else {"code": case["code"], "message": case["message"]}


def _differences(entry: Object, operation: str, old: Object | None, start: Object) -> list[str]:
    differences = []
    for case in entry[operation]:
        body = _edited(start, case["edit"])
        if old is None:
            result = create(body)
        else:
            result = update(body, old, "status" if operation == "status" else "")
        expected, given = _expected(case), _printable(result)
        if "generation" in case and not result.is_error:
            expected |= {"generation": case["generation"]}
            given |= {"generation": result.body["metadata"].get("generation")}
        if expected != given:
            differences.append(f"{case['edit']}\n  expected {expected}\n  given    {given}")
    return differences


def _drop_random_values(spec: Object) -> None:
    spec.pop("healthCheckNodePort", None)
    for port in spec.get("ports", ()):
        port.pop("nodePort", None)
    if spec.get("clusterIP", "None") != "None":
        spec |= {"clusterIP": "SERVICE-IP", "clusterIPs": ["SERVICE-IP"]}


@pytest.mark.parametrize("entry", [pytest.param(entry, id=_label(group, entry)) for group, entry in KINDS])
def test_a_created_object_is_that_of_kube_apiserver(entry: Object) -> None:
    result = create(entry["object"])
    if "stored" not in entry:
        assert result.is_error
        return
    assert not result.is_error, result
    body = json.loads(json.dumps(result.body).replace(NOW, "NOW"))
    if entry["kind"] == "Service":
        _drop_random_values(body["spec"])
    assert body == entry["stored"]
    ours = policy_warnings(body, None) if entry["kind"] == "ValidatingAdmissionPolicy" else []
    ours += policy_binding_warnings(body, None) if entry["kind"] == "ValidatingAdmissionPolicyBinding" else []
    warnings = [each for each in result.warnings if each not in ours]
    assert sorted(f"299 - {json.dumps(each)}" for each in warnings) == entry["warnings"]


@pytest.mark.parametrize("entry", _cases("create"))
def test_an_invalid_object_gives_the_errors_of_kube_apiserver(entry: Object) -> None:
    assert _differences(entry, "create", None, entry["object"]) == []


@pytest.mark.parametrize("entry", _cases("update"))
def test_an_update_gives_the_response_of_kube_apiserver(entry: Object) -> None:
    assert _differences(entry, "update", entry["old"], entry["old"]) == []


@pytest.mark.parametrize("entry", _cases("status"))
def test_a_status_update_gives_the_response_of_kube_apiserver(entry: Object) -> None:
    reported = {**entry["old"], "status": entry["report"]}
    assert _differences(entry, "status", entry["old"], reported) == []
