"""How a real kube-scheduler is started beside a server: its configuration is written, its command line returned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

RATE = 5000


def kube_scheduler(programs: Path, kubeconfig: Path, folder: Path, *flags: str, **document: Any) -> list[str]:
    """It elects no leader and may ask as often as it likes; `document` adds to its configuration."""
    written = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": RATE, "burst": RATE},
        "leaderElection": {"leaderElect": False},
        **document,
    }
    config = folder / "kube-scheduler.yaml"
    config.write_text(yaml.safe_dump(written))
    return [str(programs / "kube-scheduler"), f"--config={config}", *(flags or ("--secure-port=0",))]
