"""Upgrade from the previous release and roll-back to it: `tests/releases` has the objects that it left on a cluster.

Version 0.2.0 is not run here; `docs/upgrade.md` says what to type, and its commands are typed. What is proven: the
present release takes all objects over and keeps every promise; afterwards the files of 0.2.0 apply again, and its
definitions accept and keep every stored object; annotations, labels, finalizers and statuses have the same fields in
both directions.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.installed_cluster import PATIENCE_S, InstalledCluster
from harness.page_sessions import page_steps
from harness.real_server import REPOSITORY
from harness.scheduler_process import request
from harness.server import JSON_TYPE
from headgate.capacity.names import GATE, STAMP
from releases.frozen import DEFINITIONS, TEAM, TEAM_WAITS, applied_files, restore, stored_objects

pytestmark = pytest.mark.real

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{KUEUE}/namespaces/default/workloads"
QUOTA_JOBS = REPOSITORY / "examples" / "quota-jobs.yaml"
CUSTOM = ("scheduling.volcano.sh", "kueue.x-k8s.io")


@pytest.fixture(scope="module")
def cluster(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstalledCluster]:
    made = InstalledCluster(tmp_path_factory.mktemp("previous"), kube_binaries)
    restore(made)
    yield made
    made.stop()


def documented(heading: str) -> list[str]:
    """The commands of a section of docs/upgrade.md."""
    page = (REPOSITORY / "docs" / "upgrade.md").read_text()
    section = page.split(f"## {heading}\n")[1].split("\n## ")[0]
    return [step.command for step in page_steps(section)]


def test_an_upgrade_takes_over_what_the_previous_release_left(cluster: InstalledCluster) -> None:
    before = {each["metadata"]["name"]: each for each in (cluster.get(PODS) or {})["items"]}
    for command in documented("From 0.2.0, with files from `examples/`"):
        cluster.type(command)
    assert "The installation is complete." in cluster.headgate("install", "--check")
    cluster.headgate("install", "--status", "--wait", "60")

    for name, kept in before.items():  # no promise is broken, no gate is set or removed
        pod = cluster.get(f"{PODS}/{name}") or {}
        assert pod["metadata"]["uid"] == kept["metadata"]["uid"], name
        assert pod["spec"] == kept["spec"], name
        assert pod["metadata"]["annotations"].get(STAMP) == kept["metadata"]["annotations"].get(STAMP), name
    assert "it waits for its queue" in cluster.headgate("explain", "pod", "waiting")
    used = {"one-cpu": "cpu 1", "gangs": "cpu 2", "promises": "-"}
    rows = {line.split()[0]: line for line in cluster.headgate("queues").splitlines()[1:] if line.split()}
    assert all(expected in rows[name] for name, expected in used.items()), rows
    assert re.search(r"promises +Open +cpu 1 +- +cpu 1", rows["promises"]), "capacity is still reserved by the stamp"

    cluster.typed("delete", "pod", "running", "promised", "gang-0", "gang-1")
    for name in ("waiting", "late-0", "late-1"):
        _until_bound(cluster, name)
    running, suspended = sorted(("first", "second"), key=lambda name: _is_suspended(cluster, name))
    assert not _is_suspended(cluster, running)
    assert _is_suspended(cluster, suspended)
    cluster.typed("delete", "job", running)
    cluster.until(f"Job {suspended} starts", lambda: not _is_suspended(cluster, suspended))
    cluster.typed("delete", "job", suspended)
    _until_bound(cluster, "pod-in-a-queue")
    assert cluster.refusals() == []


def test_both_releases_write_the_same_annotations_labels_finalizers_and_statuses(cluster: InstalledCluster) -> None:
    """So each of them reads what the other has written. It needs the release that the test before has installed."""
    for kind in ("jobs.batch", "pods", "podgroups.scheduling.volcano.sh"):
        cluster.typed("delete", kind, "--all", "-n", "default")
    for file in (TEAM, QUOTA_JOBS):
        cluster.typed("apply", "-f", str(file))
    for name in ("running", "gang-0", "gang-1"):
        _until_bound(cluster, name)
    cluster.until("a Job runs", lambda: not all(_is_suspended(cluster, name) for name in ("first", "second")))
    cluster.typed("apply", "-f", str(TEAM_WAITS))
    frozen = {
        path
        for resource, each in stored_objects()
        if _is_of_team(resource) and not _is_inactive(each)
        for path in shape(resource, each)
    }
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := _shapes(cluster)) != frozen and time.monotonic() < deadline_s:
        time.sleep(0.5)
    assert sorted(found ^ frozen) == []


def test_after_a_roll_back_the_objects_of_the_previous_release_apply_again(cluster: InstalledCluster) -> None:
    waiting = (cluster.get(f"{PODS}/waiting") or {})["spec"]
    for command in documented("Back to 0.2.0"):
        cluster.type(command)
    assert (cluster.get(f"{PODS}/waiting") or {})["spec"] == waiting, "pods that wait keep their gate"
    assert waiting["schedulingGates"] == [{"name": GATE}]
    for file in applied_files():
        cluster.typed("apply", "-f", str(file))
    service = cluster.get("/api/v1/namespaces/headgate-system/services/headgate") or {}
    assert service["spec"]["selector"] == {"app.kubernetes.io/name": "headgate-webhooks"}, "of the old processes only"

    before = _custom_objects(cluster)
    assert {resource for resource, _, _ in before} >= {"workloads.kueue.x-k8s.io", "queues.scheduling.volcano.sh"}
    for resource, each in stored_objects():
        if not resource.endswith(CUSTOM) and resource not in ("pods", "jobs.batch"):
            _apply(cluster, resource, each)
    cluster.until("the definitions are the old ones", lambda: _definitions_are_frozen(cluster))
    for (resource, namespace, name), kept in before.items():
        live = cluster.get(_path(resource, namespace, name)) or {}
        assert live == kept, f"{resource} {name} lost fields"
        sent = request(
            cluster.server,
            "PUT",
            f"{_path(resource, namespace, name)}?dryRun=All&fieldValidation=Strict",
            JSON_TYPE,
            json.dumps(kept).encode(),
        )
        assert sent.status == 200, sent.body


# -- what is compared --------------------------------------------------------------------------------------------------


def shape(resource: str, obj: Object) -> Iterator[str]:
    """The fields that a release writes for other clients and for itself, without their values."""
    meta = obj["metadata"]
    for key, value in (meta.get("annotations") or {}).items():
        if "headgate" in key or "kueue" in key or "volcano" in key:
            yield f"{resource} annotation {key} {sorted(json.loads(value)) if value.startswith('{') else ''}"
    yield from (f"{resource} label {key}" for key in meta.get("labels") or {})
    yield from (f"{resource} finalizer {each}" for each in meta.get("finalizers") or ())
    yield from (f"{resource} gate {each['name']}" for each in (obj.get("spec") or {}).get("schedulingGates") or ())
    if resource.endswith(CUSTOM):
        yield from (f"{resource} status{path}" for path in _paths(obj.get("status") or {}))


def _paths(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from (f".{key}{path}" for path in _paths(each))
            yield f".{key}"
        if "type" in value and "reason" in value:
            yield f" {value['type']} {value['status']} {value['reason']}"
    elif isinstance(value, list):
        for each in value:
            yield from (f"[]{path}" for path in _paths(each))


def _is_of_team(resource: str) -> bool:
    return resource in ("pods", "jobs.batch") or resource.endswith(CUSTOM)


def _is_inactive(obj: Object) -> bool:
    """Of examples/kueue/v1beta1.yaml, whose queue has a check that is not there: more than one reason is true of it."""
    return bool(obj["metadata"]["name"].startswith("older"))


def _shapes(cluster: InstalledCluster) -> set[str]:
    found: set[str] = set()
    for resource in {resource for resource, _ in stored_objects() if _is_of_team(resource)}:
        items = json.loads(cluster.typed("get", resource, "-n", "default", "-o", "json"))["items"]
        found |= {path for each in items if not _is_inactive(each) for path in shape(resource, each)}
    return found


def _custom_objects(cluster: InstalledCluster) -> dict[tuple[str, str, str], Object]:
    found: dict[tuple[str, str, str], Object] = {}
    for resource in {resource for resource, _ in stored_objects() if resource.endswith(CUSTOM)}:
        for each in json.loads(cluster.typed("get", resource, "-A", "-o", "json", "--show-managed-fields"))["items"]:
            found[resource, each["metadata"].get("namespace", ""), each["metadata"]["name"]] = each
    return found


def _definitions_are_frozen(cluster: InstalledCluster) -> bool:
    for resource, each in stored_objects():
        if resource == DEFINITIONS:
            live = cluster.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}")
            if live is None or live["spec"] != each["spec"]:
                return False
    return True


def _apply(cluster: InstalledCluster, resource: str, obj: Object) -> None:
    """As the processes of the release write it: an object that exists is replaced."""
    meta = {
        key: obj["metadata"][key] for key in ("name", "namespace", "labels", "annotations") if key in obj["metadata"]
    }
    body = {key: value for key, value in {**obj, "metadata": meta}.items() if key != "status"}
    path = _path(resource, meta.get("namespace", ""), meta["name"])
    live = cluster.get(path)
    if live is None:
        answer = request(cluster.server, "POST", path.rsplit("/", 1)[0], JSON_TYPE, json.dumps(body).encode())
    else:
        meta["resourceVersion"] = live["metadata"]["resourceVersion"]
        answer = request(cluster.server, "PUT", path, JSON_TYPE, json.dumps(body).encode())
    assert answer.status in (200, 201), (resource, meta["name"], answer.body)


_VERSIONS = {
    "scheduling.volcano.sh": "v1beta1",
    "kueue.x-k8s.io": "v1beta2",
    "": "v1",
}


def _path(resource: str, namespace: str, name: str) -> str:
    plural, _, group = resource.partition(".")
    root = f"/apis/{group}/{_VERSIONS.get(group, 'v1')}" if group else "/api/v1"
    return f"{root}/{f'namespaces/{namespace}/' if namespace else ''}{plural}/{name}"


def _until_bound(cluster: InstalledCluster, name: str) -> None:
    cluster.until(f"{name} is bound", lambda: (cluster.get(f"{PODS}/{name}") or {})["spec"].get("nodeName"))


def _is_suspended(cluster: InstalledCluster, name: str) -> bool:
    job = cluster.get(f"/apis/batch/v1/namespaces/default/jobs/{name}") or {}
    return bool(job["spec"].get("suspend"))
