"""Every kind against what a v1.35.8 API server answered: whole manifests, and manifests with one thing changed.

The answers are in ``observed/``, one file per API group, one case per line. A case names the field that was changed;
the server's causes must come in the same order, word by word.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from headgate.apimachinery.strategy.cel_warnings import policy_binding_warnings, policy_warnings
from unit.apimachinery.strategy.server import NOW, Answer, Object, create, masked, update

OBSERVED = Path(__file__).parent / "observed"
FILES = sorted(path for path in OBSERVED.glob("*.json") if path.stem != "jobs")
KINDS = [(path.stem, entry) for path in FILES for entry in json.loads(path.read_text())]


def _label(group: str, entry: Object) -> str:
    return f"{group}-{entry['kind']}-{entry['object']['metadata']['name'].rpartition('-')[2]}"


def _cases(operation: str) -> list[Any]:
    """One test per kind and file rather than per case: there are two thousand of them."""
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


def _printable(answer: Answer) -> dict[str, Any]:
    if answer.error:
        return {"code": 400, "message": answer.error}
    return {"code": 422, "causes": answer.problems} if answer.problems else {"code": "accepted"}


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
            answer = create(body)
        else:
            answer = update(body, old, "status" if operation == "status" else "")
        expected, given = _expected(case), _printable(answer)
        if "generation" in case and not answer.refused:
            expected |= {"generation": case["generation"]}
            given |= {"generation": answer.body["metadata"].get("generation")}
        if expected != given:
            differences.append(f"{case['edit']}\n  expected {expected}\n  given    {given}")
    return differences


def _forget_what_was_drawn(spec: Object) -> None:
    spec.pop("healthCheckNodePort", None)
    for port in spec.get("ports", ()):
        port.pop("nodePort", None)
    if spec.get("clusterIP", "None") != "None":
        spec |= {"clusterIP": "SERVICE-IP", "clusterIPs": ["SERVICE-IP"]}


@pytest.mark.parametrize("entry", [pytest.param(entry, id=_label(group, entry)) for group, entry in KINDS])
def test_a_new_object_is_completed_as_the_real_server_did(entry: Object) -> None:
    answer = create(entry["object"])
    if "stored" not in entry:
        assert answer.refused
        return
    assert not answer.refused, answer
    body = json.loads(json.dumps(answer.body).replace(NOW, "NOW"))
    if entry["kind"] == "Service":
        _forget_what_was_drawn(body["spec"])
    assert body == entry["stored"]
    ours = policy_warnings(body, None) if entry["kind"] == "ValidatingAdmissionPolicy" else []
    ours += policy_binding_warnings(body, None) if entry["kind"] == "ValidatingAdmissionPolicyBinding" else []
    warnings = [each for each in answer.warnings if each not in ours]
    assert sorted(f"299 - {json.dumps(each)}" for each in warnings) == entry["warnings"]


@pytest.mark.parametrize("entry", _cases("create"))
def test_a_new_object_is_refused_in_the_real_servers_words(entry: Object) -> None:
    assert _differences(entry, "create", None, entry["object"]) == []


@pytest.mark.parametrize("entry", _cases("update"))
def test_a_change_is_taken_or_refused_as_the_real_server_did(entry: Object) -> None:
    assert _differences(entry, "update", entry["old"], entry["old"]) == []


@pytest.mark.parametrize("entry", _cases("status"))
def test_a_status_is_taken_or_refused_as_the_real_server_did(entry: Object) -> None:
    reported = {**entry["old"], "status": entry["report"]}
    assert _differences(entry, "status", entry["old"], reported) == []
