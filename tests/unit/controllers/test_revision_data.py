"""The data of ControllerRevisions: the bytes that kube-controller-manager writes, and what earlier versions wrote."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.controllers.framework.effects import Create
from headgate.controllers.ownership import controller_revisions
from headgate.controllers.ownership.controller_revisions import CreateRevision, KeepRevision, RenumberRevision
from headgate.kube.api_resources import CONTROLLER_REVISIONS
from headgate.kube.schema import GroupVersionKind
from headgate.kube.serializer.go_json import go_json, html_escaped
from headgate.runtime.effect_requests import request_of

Object = dict[str, Any]

STATEFUL = GroupVersionKind("apps", "v1", "StatefulSet")
DAEMON = GroupVersionKind("apps", "v1", "DaemonSet")
BEYOND = 2**53 + 1
"""A float64 does not hold it."""


def an_owner(**spec: Any) -> Object:
    container = {"name": "main", "image": "i", "args": ["a<b", "c&d>"], "env": [{"value": "v", "name": "n"}]}
    template = {
        "spec": {"restartPolicy": "Always", "containers": [container], **spec},
        "metadata": {"labels": {"a": "b"}},
    }
    return {"metadata": {"name": "o", "namespace": "ns", "uid": "u"}, "spec": {"replicas": 1, "template": template}}


def old_data(owner: Object) -> Object:
    """As earlier versions wrote it: in the order of the template, the directive last."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


@pytest.mark.parametrize("kind", [STATEFUL, DAEMON], ids=lambda kind: kind.kind)
def test_a_revision_is_sent_with_sorted_keys_the_directive_first_and_escaped_as_go_does(kind: GroupVersionKind) -> None:
    made = controller_revisions.new_revision(an_owner(), kind, 1, "h")
    assert request_of(Create(CONTROLLER_REVISIONS, "ns", made)).body.partition(b'"data":')[2] == (
        rb'{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"b"}},"spec":{"containers":'
        rb'[{"args":["a\u003cb","c\u0026d\u003e"],"env":[{"name":"n","value":"v"}],"image":"i","name":"main"}],'
        rb'"restartPolicy":"Always"}}}},"revision":1}'
    )


@pytest.mark.parametrize(("kind", "printed"), [(STATEFUL, 2**53), (DAEMON, BEYOND)], ids=["StatefulSet", "DaemonSet"])
def test_large_numbers_are_printed_as_kube_controller_manager_prints_them(kind: GroupVersionKind, printed: int) -> None:
    data = controller_revisions.data_of(an_owner(activeDeadlineSeconds=BEYOND), kind)
    assert data["spec"]["template"]["spec"]["activeDeadlineSeconds"] == printed


@pytest.mark.parametrize("kind", [STATEFUL, DAEMON], ids=lambda kind: kind.kind)
@pytest.mark.parametrize("owner", [an_owner(), an_owner(activeDeadlineSeconds=BEYOND)], ids=["usual", "large number"])
def test_a_revision_of_an_earlier_version_is_equal(kind: GroupVersionKind, owner: Object) -> None:
    old = {"metadata": {"name": "o-1"}, "data": old_data(owner), "revision": 1}
    other = {"metadata": {"name": "o-2"}, "data": old_data(an_owner(hostNetwork=True)), "revision": 2}
    data = controller_revisions.data_of(owner, kind)
    assert controller_revisions.choose_revision([old], data, kind) == KeepRevision(old)
    assert controller_revisions.choose_revision([old, other], data, kind) == RenumberRevision(old, 3)
    assert controller_revisions.choose_revision([other], data, kind) == CreateRevision(3)


def test_a_daemon_set_distinguishes_numbers_that_a_float_does_not() -> None:
    one, other = an_owner(activeDeadlineSeconds=BEYOND), an_owner(activeDeadlineSeconds=BEYOND - 1)
    known = {"metadata": {"name": "o-1"}, "data": controller_revisions.data_of(one, DAEMON), "revision": 1}
    assert controller_revisions.choose_revision(
        [known], controller_revisions.data_of(other, DAEMON), DAEMON
    ) == CreateRevision(2)


def test_escaping_changes_the_text_and_not_the_value() -> None:
    value = {"b": 'x<y>z&"\\\u2028\u2029\u00e9', "a": [1, 2.5, None, True]}
    text = msgspec.json.encode(value)
    assert msgspec.json.decode(html_escaped(text)) == value
    assert go_json(value) == rb'{"a":[1,2.5,null,true],"b":"x\u003cy\u003ez\u0026\"\\\u2028\u2029' + 'é"}'.encode()
