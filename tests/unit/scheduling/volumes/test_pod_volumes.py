"""The binding cycle of a pod with volumes: assumed, written, awaited and reverted bindings."""

from __future__ import annotations

from typing import Any

from headgate.scheduling.framework.effects import ObjectPatch, PreBindWrites, WriteResult
from headgate.scheduling.pod_lifecycle import PodState
from headgate.scheduling.volumes import storage_cache
from storage import HOST, Shown, a_claim, a_class, a_volume, claims
from unit.scheduling.world import World, a_node, a_pod

NODES = (a_node("n1", labels={HOST: "n1"}), a_node("n2", labels={HOST: "n2"}))
SELECTED = "volume.kubernetes.io/selected-node"
LOCAL = (a_class("local"), a_volume("v2", on_class="local", at={HOST: ["n2"]}))


class Storing(World):
    def __init__(self, *shown: Shown) -> None:
        super().__init__(nodes=NODES)
        self.tell(*shown)

    def tell(self, *shown: Shown) -> None:
        for resource, wire in shown:
            self.scheduler.object_applied(resource, wire, self.now_s)
        self.step()

    def prepared(self, name: str, problem: str = "") -> None:
        self.effects = self.scheduler.prepared(f"uid-{name}", problem, self.now_s)

    @property
    def writes(self) -> list[ObjectPatch]:
        return [write for each in self.effects if isinstance(each, PreBindWrites) for write in each.writes]


def with_claim(name: str, claim: str = "c", **spec: Any) -> dict[str, Any]:
    return a_pod(name, volumes=claims(claim), **spec)


def test_a_free_volume_is_bound_to_the_claim_before_the_pod_is_bound() -> None:
    world = Storing(*LOCAL, a_claim("c", on_class="local", revision="7"))
    world.show(with_claim("p"))
    world.step()
    assert world.binds == {}
    (write,) = world.writes
    assert (write.resource, write.name, write.uid, write.how) == (storage_cache.VOLUMES, "v2", "uid-v2", "merge")
    assert write.body == {
        "metadata": {"resourceVersion": "1", "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
        "spec": {
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "c",
                "uid": "uid-c",
                "resourceVersion": "7",
            }
        },
    }
    world.prepared("p")
    assert world.effects == []
    bound = a_volume("v2", on_class="local", revision="2", claim="c", at={HOST: ["n2"]})
    world.tell(bound)
    assert world.binds == {}
    world.tell(a_claim("c", on_class="local", revision="8", volume="v2"))
    assert world.binds == {"p": "n2"}


def test_a_volume_is_provisioned_for_the_chosen_node() -> None:
    world = Storing(a_class("s", "ebs"), a_claim("c", on_class="s"))
    world.show(with_claim("p"))
    world.step()
    (write,) = world.writes
    assert (write.resource, write.namespace, write.name) == (storage_cache.CLAIMS, "default", "c")
    assert write.body == {"metadata": {"resourceVersion": "1", "annotations": {SELECTED: "n1"}}}
    world.prepared("p")
    world.tell(a_claim("c", on_class="s", revision="2", annotations={SELECTED: "n1"}))
    assert world.binds == {}
    world.tell(a_claim("c", on_class="s", revision="3", volume="new", annotations={SELECTED: "n1"}))
    assert world.binds == {}
    world.tell(a_volume("new", on_class="s", claim="c", at={HOST: ["n1"]}))
    assert world.binds == {"p": "n1"}


def test_pods_whose_claims_are_bound_do_not_wait() -> None:
    world = Storing(a_claim("c", volume="v"), a_volume("v", claim="c", at={HOST: ["n2"]}))
    world.show(with_claim("p"))
    world.step()
    assert world.binds == {"p": "n2"}


def test_an_assumed_volume_is_not_used_twice_and_is_freed_when_the_pod_is_not_bound() -> None:
    world = Storing(*LOCAL, a_claim("c", on_class="local"), a_claim("d", on_class="local"))
    world.show(with_claim("p", priority=1), with_claim("q", "d"))
    world.step()
    assert [write.name for write in world.writes] == ["v2"]
    assert world.where("q") is PodState.UNSCHEDULABLE
    world.prepared("p", "persistentvolumes v2: the object has been modified")
    assert world.statuses["p"].startswith("SchedulerError: ")
    world.remove("p")
    world.tell(a_volume("other", on_class="local", at={HOST: ["n1"]}))
    assert [(write.name, write.body["spec"]["claimRef"]["name"]) for write in world.writes] == [("other", "d")]
    world.tell(a_claim("e", on_class="local"))
    world.show(with_claim("r", "e"))
    world.step()
    assert [(write.name, write.body["spec"]["claimRef"]["name"]) for write in world.writes] == [("v2", "e")]


def test_a_second_pod_with_the_same_claim_follows_the_first_to_its_node() -> None:
    world = Storing(a_class("s", "ebs"), a_claim("c", on_class="s"))
    world.show(a_pod("full", {"cpu": "4"}))
    world.step()
    assert world.binds == {"full": "n1"}
    world.show(with_claim("p", priority=1))
    world.step()
    world.answer("full", WriteResult.GONE)
    world.show(with_claim("q"))
    world.step()
    assert [write.body["metadata"]["annotations"] for write in world.writes] == [{SELECTED: "n2"}]


def test_failed_provisioning_unreserves_the_pod() -> None:
    world = Storing(a_class("s", "ebs"), a_claim("c", on_class="s"))
    world.show(with_claim("p"))
    world.step()
    world.prepared("p")
    world.tell(a_claim("c", on_class="s", revision="2", annotations={SELECTED: "n1"}))
    world.tell(a_claim("c", on_class="s", revision="3"))
    message = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "c"'
    assert world.statuses == {"p": f"SchedulerError: {message}"}
    assert world.taken("n1") == 0
    world.step(after_s=3)
    assert [write.body["metadata"]["resourceVersion"] for write in world.writes] == ["3"]


def test_failures_while_a_volume_is_bound_are_reported() -> None:
    unbound = a_volume("v2", on_class="local", revision="3", at={HOST: ["n2"]})
    moved = a_volume("v2", on_class="local", revision="2", claim="c", at={HOST: ["n1"]})
    written = a_volume("v2", on_class="local", revision="2", claim="c", at={HOST: ["n2"]})
    for shown, message in (
        ([written, unbound], 'ClaimRef got reset for pv "v2"'),
        ([moved], 'pv "v2" node affinity doesn\'t match node "n2": no matching NodeSelectorTerms'),
    ):
        world = Storing(*LOCAL, a_claim("c", on_class="local"))
        world.show(with_claim("p"))
        world.step()
        world.prepared("p")
        for each in shown:
            world.tell(each)
        prefix = 'SchedulerError: running PreBind plugin "VolumeBinding": binding volumes: '
        assert world.statuses == {"p": prefix + message}


def test_a_deleted_claim_ends_the_wait() -> None:
    world = Storing(*LOCAL, a_claim("c", on_class="local"))
    world.show(with_claim("p"))
    world.step()
    world.prepared("p")
    world.scheduler.object_removed(storage_cache.CLAIMS, "default", "c", world.now_s)
    world.step()
    assert 'failed to check binding: persistentvolumeclaims "default/c" not found' in world.statuses["p"]


def test_provisioning_times_out_after_ten_minutes() -> None:
    world = Storing(a_class("s", "ebs"), a_claim("c", on_class="s"))
    world.show(with_claim("p"))
    world.step()
    world.prepared("p")
    world.tell(a_claim("c", on_class="s", revision="2", annotations={SELECTED: "n1"}))
    world.step(after_s=599)
    assert world.effects == []
    world.step(after_s=2)
    assert world.statuses["p"].startswith("SchedulerError: ")
    assert world.taken("n1") == 0


def test_a_change_of_a_claim_does_not_wake_other_pods() -> None:
    world = Storing(a_class("s", "ebs"), *(a_claim(f"c{i}", on_class="s") for i in range(3)))
    world.show(*(with_claim(f"p{i}", f"c{i}") for i in range(3)))
    world.step()
    for i in range(3):
        world.prepared(f"p{i}")
        selected = {SELECTED: world.scheduler.bindings._cycles[f"uid-p{i}"].node_name}
        world.tell(a_claim(f"c{i}", on_class="s", revision="2", annotations=selected))
    volume = a_volume("new", on_class="s", claim="c1")
    at = world.scheduler.bindings._cycles["uid-p1"].node_name
    world.tell(volume, a_claim("c1", on_class="s", revision="3", volume="new", annotations={SELECTED: at}))
    assert list(world.binds) == ["p1"]


def test_a_pod_that_waits_for_its_claim_is_woken_only_by_that_claim() -> None:
    world = Storing(a_class("s", "ebs"))
    world.show(with_claim("p"))
    world.step()
    assert world.where("p") is PodState.UNSCHEDULABLE
    world.tell(a_claim("other", on_class="s"))
    assert world.where("p") is PodState.UNSCHEDULABLE
    world.tell(a_claim("c", on_class="s"))
    assert [write.name for write in world.writes] == ["c"]


def test_a_pod_rejected_in_pre_filter_gets_the_message_of_kube_scheduler() -> None:
    world = Storing()
    world.show(with_claim("p"))
    world.step()
    message = '0/2 nodes are available: persistentvolumeclaim "c" not found. not found'
    assert world.statuses == {"p": f"Unschedulable: {message}"}


def test_preemption_caches_results_for_pods_with_volumes() -> None:
    away = a_volume("v", claim="c", at={HOST: ["n9"]}, labels={"a": "b"})
    world = Storing(a_claim("c", volume="v"), away)
    world.show(with_claim("p"), with_claim("q"))
    world.step()
    helps = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    assert [text.endswith(helps) for text in world.statuses.values()] == [True, True]
