"""Queue and PodGroup in ``headgate up``: there from its first moment, also in a folder that is older than they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.cluster import Cluster
from harness.queues import QUEUES
from harness.scheduler_process import wait_for

ALL = ("--nodes", "0", "--components", "apiserver,scheduler")
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/podgroups"


def names(cluster: Cluster) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.ask("GET", QUEUES)[1]["items"]]


def test_a_new_cluster_has_the_kinds_and_two_queues_when_it_says_ready(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data", *ALL) as cluster:
        assert names(cluster) == ["default", "root"]
        assert cluster.ask("GET", GROUPS)[1]["items"] == []
        for version in ("v1beta1", "v1beta2"):
            assert cluster.ask("GET", f"/apis/kueue.x-k8s.io/{version}/workloads")[1]["items"] == []


def test_a_folder_that_is_older_than_the_kinds_gets_them_and_what_was_changed_stays(tmp_path: Path) -> None:
    with Cluster(tmp_path / "data", "--components", "apiserver") as bare:
        groups = [each["name"] for each in bare.ask("GET", "/apis")[1]["groups"]]
        assert not {"scheduling.volcano.sh", "kueue.x-k8s.io"} & set(groups)
        bare.stop()
    with Cluster(tmp_path / "data", *ALL) as first:
        found = first.ask("GET", f"{QUEUES}/default")[1]
        found["spec"]["capability"] = {"cpu": "7"}
        assert first.ask("PUT", f"{QUEUES}/default", found)[0] == 200
        first.stop()
    with Cluster(tmp_path / "data", *ALL) as second:
        assert names(second) == ["default", "root"]
        assert second.ask("GET", f"{QUEUES}/default")[1]["spec"]["capability"] == {"cpu": "7"}


def test_a_pod_without_a_group_gets_one_if_asked_for_and_takes_it_along(tmp_path: Path) -> None:
    pods = "/api/v1/namespaces/default/pods"
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"metadata": {"name": "alone"}, "spec": {"schedulerName": "volcano", "containers": [container]}}
    with Cluster(tmp_path / "data", "--nodes", "1", "--podgroups-for-bare-pods") as cluster:
        status, made = cluster.ask("POST", pods, pod)
        assert status == 201, made

        def group() -> dict[str, Any]:
            found: dict[str, Any] = next(iter(cluster.ask("GET", GROUPS)[1]["items"]), {})
            return found

        wait_for(lambda: (group().get("status") or {}).get("running") == 1)
        assert group()["metadata"]["name"] == f"podgroup-{made['metadata']['uid']}"
        assert (group()["spec"]["queue"], group()["status"]["phase"]) == ("default", "Running")
        assert cluster.ask("DELETE", f"{pods}/alone", {"gracePeriodSeconds": 0})[0] == 200
        wait_for(lambda: group() == {})
