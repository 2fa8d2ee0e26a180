"""Creating, updating and deleting, without a socket."""

from __future__ import annotations

import pytest

from embedded import TOKEN, Embedded, a_pod, events
from headgate.apiserver.handler import RequestSteps, handle
from headgate.apiserver.request.messages import Commit, ServerRequest

MAPS = "/api/v1/namespaces/t/configmaps"
PODS = "/api/v1/namespaces/t/pods"


def test_a_write_that_the_disk_refuses_is_answered_with_the_reason_and_leaves_nothing() -> None:
    server = Embedded()
    server.disk_error = "no space left on device"
    refused = server.post(MAPS, {"metadata": {"name": "a"}})
    assert refused.status == 500
    assert "no space left on device" in refused.body["message"]
    server.disk_error = None
    assert server.get(f"{MAPS}/a").status == 404
    assert server.post(MAPS, {"metadata": {"name": "a"}}).status == 201


def test_readers_do_not_see_what_is_not_on_disk() -> None:
    server = Embedded()
    watch = server.watch(MAPS)
    assert events(watch) == []
    server.disk_error = "later"
    server.post(MAPS, {"metadata": {"name": "a"}})
    assert events(watch) == []
    assert server.get(MAPS).body["items"] == []


class Counting(Embedded):
    """Counts how often a request waits for the disk."""

    waits = 0

    def _perform(self, effect: object) -> object:
        self.waits += isinstance(effect, Commit) and self.api.store.applied > self.api.store.committed
        return super()._perform(effect)


def test_deletions_of_a_collection_share_waits_for_the_disk() -> None:
    server = Counting()
    for number in range(100):
        server.post(MAPS, {"metadata": {"name": f"m{number}"}})
    server.waits = 0
    assert len(server.delete(MAPS).body["items"]) == 100
    assert server.waits == 4
    assert server.get(MAPS).body["items"] == []


def test_deletions_of_a_collection_that_the_disk_refuses_leave_everything() -> None:
    server = Embedded()
    for number in range(3):
        server.post(MAPS, {"metadata": {"name": f"m{number}"}})
    server.disk_error = "no space left on device"
    assert server.delete(MAPS).status == 500
    server.disk_error = None
    assert len(server.get(MAPS).body["items"]) == 3


def test_a_generated_name_is_the_prefix_and_five_characters() -> None:
    server = Embedded()
    made = server.post(MAPS, {"metadata": {"generateName": "x-"}})
    assert made.body["metadata"]["name"] == "x-00001"


def test_an_update_with_a_stale_version_is_a_conflict() -> None:
    server = Embedded()
    first = server.post(MAPS, {"metadata": {"name": "a"}, "data": {"k": "1"}}).body
    second = server.put(f"{MAPS}/a", {**first, "data": {"k": "2"}})
    assert second.status == 200
    stale = server.put(f"{MAPS}/a", {**first, "data": {"k": "3"}})
    assert (stale.status, stale.body["reason"]) == (409, "Conflict")


def test_an_update_that_changes_nothing_keeps_its_version() -> None:
    server = Embedded()
    first = server.post(MAPS, {"metadata": {"name": "a"}, "data": {"k": "1"}}).body
    server.epoch_s += 60
    again = server.put(f"{MAPS}/a", first)
    assert again.body["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_a_dry_run_answers_like_the_real_thing_and_stores_nothing() -> None:
    server = Embedded()
    tried = server.post(MAPS, {"metadata": {"name": "a"}}, dryRun="All")
    assert tried.status == 201
    assert "resourceVersion" not in tried.body["metadata"]
    assert server.get(f"{MAPS}/a").status == 404


def test_an_object_with_a_finalizer_stays_until_the_finalizer_is_gone() -> None:
    server = Embedded()
    server.post(MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}})
    watch = server.watch(MAPS, resourceVersion=server.get(MAPS).body["metadata"]["resourceVersion"])
    marked = server.delete(f"{MAPS}/a").body
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    kept = server.get(f"{MAPS}/a").body
    released = server.put(f"{MAPS}/a", {**kept, "metadata": {**kept["metadata"], "finalizers": []}})
    assert released.status == 200
    assert server.get(f"{MAPS}/a").status == 404
    assert [kind for kind, _ in events(watch)] == ["MODIFIED", "DELETED"]


def test_an_unscheduled_pod_goes_at_once_and_watchers_see_the_mark_before_the_end() -> None:
    server = Embedded()
    server.post(PODS, a_pod())
    watch = server.watch(PODS, resourceVersion=server.get(PODS).body["metadata"]["resourceVersion"])
    gone = server.delete(f"{PODS}/a")
    assert gone.status == 200
    assert gone.body["metadata"]["deletionGracePeriodSeconds"] == 0
    assert [kind for kind, _ in events(watch)] == ["MODIFIED", "DELETED"]


def test_a_bound_pod_is_given_its_grace_period_and_a_shorter_one_can_be_asked_for() -> None:
    server = Embedded()
    server.post(PODS, a_pod(nodeName="n"))
    server.delete(f"{PODS}/a")
    assert server.get(f"{PODS}/a").body["metadata"]["deletionGracePeriodSeconds"] == 30
    server.delete(f"{PODS}/a", {"gracePeriodSeconds": 5})
    assert server.get(f"{PODS}/a").body["metadata"]["deletionGracePeriodSeconds"] == 5
    server.delete(f"{PODS}/a", {"gracePeriodSeconds": 20})
    assert server.get(f"{PODS}/a").body["metadata"]["deletionGracePeriodSeconds"] == 5
    server.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert server.get(f"{PODS}/a").status == 404


def test_a_uid_precondition_protects_the_next_object_of_the_same_name() -> None:
    server = Embedded()
    first = server.post(MAPS, {"metadata": {"name": "a"}}).body["metadata"]["uid"]
    server.delete(f"{MAPS}/a")
    server.post(MAPS, {"metadata": {"name": "a"}})
    refused = server.delete(f"{MAPS}/a", {"preconditions": {"uid": first}})
    assert refused.status == 409
    assert server.get(f"{MAPS}/a").status == 200


def test_a_collection_is_deleted_by_selector() -> None:
    server = Embedded()
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        server.post(MAPS, {"metadata": {"name": name, "labels": {"colour": colour}}})
    gone = server.delete(MAPS, labelSelector="colour=red")
    assert [item["metadata"]["name"] for item in gone.body["items"]] == ["a", "c"]
    assert [item["metadata"]["name"] for item in server.get(MAPS).body["items"]] == ["b"]


def test_what_needs_a_kubelet_is_refused_by_name() -> None:
    server = Embedded()
    server.post(PODS, a_pod())
    for subresource in ("log", "exec", "attach", "portforward", "proxy"):
        refused = server.get(f"{PODS}/a/{subresource}")
        assert refused.status == 501, subresource
        assert f"pods/{subresource}" in refused.body["message"]


@pytest.mark.parametrize("path", [f"{MAPS}/a", MAPS])
def test_a_concurrent_deletion_is_reported_only_when_readers_can_see_it(path: str) -> None:
    server = Embedded()
    server.post(MAPS, {"metadata": {"name": "a"}})

    def deleting(what: str) -> RequestSteps:
        headers = {"authorization": f"Bearer {TOKEN}"}
        return handle(server.api, ServerRequest("DELETE", what, "", headers), server.moment())

    first = deleting(f"{MAPS}/a")
    effect = next(first)
    assert isinstance(effect, Commit)
    assert next(deleting(path)) == effect


def test_owner_references_that_are_equal_are_kept_once_whatever_the_order_of_their_fields() -> None:
    server = Embedded()
    first = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    other = {**first, "uid": "v"}
    made = server.post(
        MAPS, {"metadata": {"name": "a", "ownerReferences": [first, other, dict(reversed(first.items()))]}}
    )
    assert made.body["metadata"]["ownerReferences"] == [first, other]
    assert "duplicate UID(s) observed: u" in made.warnings[0]


def test_an_answer_does_not_grow_with_the_square_of_the_errors() -> None:
    server = Embedded()
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    owners = [{**owner, "name": f"p{number}", "uid": f"u{number}"} for number in range(2_000)]
    refused = server.post(MAPS, {"metadata": {"name": "a", "ownerReferences": owners}})
    assert refused.status == 422
    assert refused.body["message"].endswith(f"and {1_999 - len(refused.body['details']['causes'])} more errors]")
    assert len(refused.body["message"]) < 1_000_000


def test_a_custom_object_whose_spec_is_a_list_can_be_changed() -> None:
    server = Embedded()
    schema = {"type": "object", "properties": {"spec": {"type": "array", "items": {"type": "string"}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}
    definition = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert server.post(definitions, {"metadata": {"name": "foos.x.io"}, "spec": definition}).status == 201
    foos = "/apis/x.io/v1/namespaces/t/foos"
    foo = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": ["x"]}
    assert server.post(foos, foo).status == 201
    assert server.patch(f"{foos}/a", {"spec": ["y"]}).body["spec"] == ["y"]
