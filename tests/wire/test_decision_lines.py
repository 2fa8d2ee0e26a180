"""At level ``info`` a cluster logs one line for each decision, and no other line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from clusters import a_pod
from harness.cluster import Cluster
from harness.scheduler_process import wait_for

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "quota-jobs.yaml"
COLLECTIONS = {
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta2/resourceflavors",
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "LocalQueue": "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
}
PODS = "/api/v1/namespaces/default/pods"
OPT_IN = "scheduling.volcano.sh/queue-allocation-gate"


def _gated_pod() -> dict[str, Any]:
    pod = a_pod("gated", {"cpu": "1"})
    del pod["metadata"]["uid"]
    pod["metadata"]["annotations"] = {OPT_IN: "true"}
    pod["spec"]["schedulerName"] = "headgate"
    return pod


def _short(line: dict[str, Any]) -> str:
    """Names that are generated end in a dash here."""
    kind, name = line["kind"], line["name"]
    return f"{line['msg']} {kind} {name if kind == 'Job' or name == 'gated' else name[:-5]}"


def test_each_decision_of_a_session_is_one_line_and_nothing_else_is(tmp_path: Path) -> None:
    flags = ("--nodes", "1", "--log-level", "info", "--log-format", "json")
    with Cluster(tmp_path / "data", *flags) as cluster:
        assert cluster.ask("POST", PODS, _gated_pod())[0] == 201
        for each in yaml.safe_load_all(EXAMPLE.read_text()):
            status, answer = cluster.ask("POST", COLLECTIONS[each["kind"]], each)
            assert status == 201, answer

        def has_ended() -> bool:
            jobs = cluster.ask("GET", COLLECTIONS["Job"])[1]["items"]
            pod = cluster.ask("GET", f"{PODS}/gated")[1]
            return all((each.get("status") or {}).get("succeeded") for each in jobs) and bool(
                pod["spec"].get("nodeName")
            )

        wait_for(has_ended, limit_s=60)
        code, _, err = cluster.stop()
    lines = [json.loads(each) for each in err.splitlines()]
    assert code == 0
    assert {(each["level"], each["logger"]) for each in lines} == {("info", "headgate.decisions")}
    of_pod = [_short(each) for each in lines if each["name"] == "gated"]
    assert of_pod == ["gate removed Pod gated", "bound Pod gated"]
    for job in ("first", "second"):
        own = [each for each in lines if each["name"].removeprefix("job-").startswith(job)]
        assert [_short(each) for each in own] == [
            f"admitted Workload job-{job}-",
            f"started Job {job}",
            f"bound Pod {job}-",
        ]
        admitted, started, bound = own
        assert (admitted["queue"], admitted["clusterQueue"]) == ("team", "one-cpu-of-quota")
        assert (admitted["resources"], admitted["flavors"]) == ({"cpu": "1"}, {"cpu": "any-node"})
        assert started["durationSeconds"] >= 0
        assert bound["node"]
    assert len(lines) == 8
