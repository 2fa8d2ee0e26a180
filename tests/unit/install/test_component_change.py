"""A change between gates-only and all components stops the old replicas first; other changes roll."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.http.transport import HTTPRequest
from headgate.install.component_change import ReplicasNotStopped, stop_before_change
from headgate.install.manifests import install_objects
from headgate.install.options import InstallOptions, QueueOptions, gates_only, with_components
from unit.install.installation import NAMESPACE, Installation

Object = dict[str, Any]
PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/headgate"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
FULL = InstallOptions()
GATES = gates_only(QueueOptions("team-a"))


def _deployment(options: InstallOptions) -> Object:
    objects = install_objects(options, NAMESPACE)
    return next(each for each in objects if each["kind"] == "Deployment")


def _replica(made: Installation) -> None:
    labels = {"app.kubernetes.io/name": "headgate", "app.kubernetes.io/component": "manager"}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    made.create(PODS, {"metadata": {"name": "replica", "labels": labels}, "spec": spec})


@pytest.mark.parametrize(("before", "after"), [(GATES, FULL), (FULL, GATES)])
def test_replicas_that_exclude_each_other_do_not_run_at_the_same_time(
    before: InstallOptions, after: InstallOptions
) -> None:
    made = Installation()
    made.install(before)
    _replica(made)
    reads = 0

    def kubelet(request: HTTPRequest) -> None:
        nonlocal reads
        reads += request.path == PODS
        if request.path == PODS and reads == 3:
            assert made.server.delete(f"{PODS}/replica").status == 200

    made.before_request = kubelet
    assert made.perform(stop_before_change(_deployment(after))).startswith("stopped: ")
    assert made.get(PATH)["spec"]["replicas"] == 0
    assert reads == 3, "it waits until the pods have ended"
    made.install(after)
    assert made.get(PATH)["spec"]["replicas"] == 2


def test_other_changes_are_rolled_out_without_a_stop() -> None:
    made = Installation()
    assert made.perform(stop_before_change(_deployment(FULL))) == "", "nothing is installed"
    made.install(FULL)
    fewer = with_components(FULL, ["scheduler", "webhooks"])
    assert isinstance(fewer, InstallOptions)
    assert made.perform(stop_before_change(_deployment(fewer))) == ""
    assert made.get(PATH)["spec"]["replicas"] == 2


def test_pods_that_do_not_end_are_an_error() -> None:
    made = Installation()
    made.install(GATES)
    _replica(made)
    with pytest.raises(ReplicasNotStopped, match="pods do not end: replica; delete them"):
        made.perform(stop_before_change(_deployment(FULL)))
