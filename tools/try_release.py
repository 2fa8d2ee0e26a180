#!/usr/bin/env python3
"""Upgrades from an old release and rolls back to it, with the code of that release, on a real control plane:

    git archive COMMIT | tar x -C TREE && make -C TREE setup
    .venv/bin/python tools/try_release.py TREE tests/releases/v0.2.0

It prints what it checks. `tests/real/test_previous_release.py` does the same with the objects of the release and
without its code, so this is for a release, not for each change.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.freeze_release import PATIENCE_S, PODS, bound, run_release, stop_release

from harness.installed_cluster import InstalledCluster
from harness.page_sessions import page_steps
from harness.pod_creation import PodCreator
from harness.process_kubelet import run_on_host
from harness.real_server import HOW_TO_GET_THEM, REPOSITORY, binaries
from releases.frozen import IMAGE, applied_files

OLD = "deployment/headgate-run"
SECTIONS = ("From 0.2.0, with files from `examples/`", "Back to 0.2.0")


def section(heading: str) -> list[str]:
    """The commands of a section of docs/upgrade.md."""
    page = (REPOSITORY / "docs" / "upgrade.md").read_text()
    return [step.command for step in page_steps(page.split(f"## {heading}\n")[1].split("\n## ")[0])]


def try_release(tree: Path, folder: Path) -> None:
    programs = binaries()
    if programs is None:
        raise SystemExit(f"the real Kubernetes binaries are absent: {HOW_TO_GET_THEM}")
    with tempfile.TemporaryDirectory() as place:
        cluster = InstalledCluster(
            Path(place), programs, partial(run_on_host, releases={IMAGE: tree / ".venv" / "bin" / "headgate"})
        )
        try:
            run_release(cluster, tree, folder)
            kept = {each["metadata"]["name"]: each["spec"] for each in (cluster.get(PODS) or {})["items"]}
            stop_release(cluster)
            for command in section(SECTIONS[0]):
                cluster.type(command)
            cluster.headgate("install", "--status", "--wait", "60")
            _check_specs(cluster, kept, "after the upgrade")
            check_turn(cluster, "running", "waiting", "the new release admits what waited under the old one")
            for command in section(SECTIONS[1]):
                cluster.type(command)
            roll_back(cluster, folder)
            print(f"refused requests of service accounts of both releases: {cluster.refusals()}")
        finally:
            cluster.stop()


def roll_back(cluster: InstalledCluster, folder: Path) -> None:
    """The old release runs again on what the new one has left."""
    kept = {each["metadata"]["name"]: each["spec"] for each in (cluster.get(PODS) or {})["items"]}
    for file in applied_files(folder):
        cluster.typed("apply", "-f", str(file))
    cluster.typed("scale", OLD, "-n", "headgate-system", "--replicas=2")
    cluster.typed("rollout", "status", OLD, "-n", "headgate-system", f"--timeout={PATIENCE_S:.0f}s")
    cluster.until("v1beta1 is served", lambda: "kueue.x-k8s.io/v1beta1" in cluster.typed("api-versions"))
    cluster.until("the old webhooks gate pods", lambda: _is_gated_by_dry_run(cluster))
    _check_specs(cluster, kept, "after the roll-back")
    cluster.typed("delete", "pod", "gang-0", "gang-1")
    cluster.until("the gang that waited is bound", lambda: {"late-0", "late-1"} <= bound(cluster))
    print("the old release admits a gang that waited under the new one")
    cluster.typed("create", "namespace", "load")
    with PodCreator(cluster.server, "load", limit=60) as creator:
        creator.join()
    print(f"60 pods under the old release: {dict(creator.outcomes)}")


def check_turn(cluster: InstalledCluster, first: str, second: str, text: str) -> None:
    cluster.typed("delete", "pod", first)
    cluster.until(f"{second} is bound", lambda: second in bound(cluster))
    print(text)


def _check_specs(cluster: InstalledCluster, kept: dict[str, object], when: str) -> None:
    specs = {each["metadata"]["name"]: each["spec"] for each in (cluster.get(PODS) or {})["items"]}
    changed = [name for name, spec in kept.items() if specs.get(name) != spec]
    print(f"pods whose spec changed {when}: {changed}")


def _is_gated_by_dry_run(cluster: InstalledCluster) -> bool:
    done = cluster.kubectl("create", "-f", str(_probe()), "--dry-run=server", "-o", "yaml")
    return "schedulingGates" in done.stdout


def _probe() -> Path:
    return REPOSITORY / "examples" / "install" / "queue-and-pods.yaml"


if __name__ == "__main__":
    try_release(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
