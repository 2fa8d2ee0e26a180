"""The versions of Kubernetes on which the smoke suite runs: `make newest` and `make skew` build them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness.real_server import NEEDED, REPOSITORY

VERSIONS = ("1.33", "1.34", "1.35", "1.36")
"""As in `tools/kube`: one Go module for each, that of 1.35 is `kubernetes`."""
NEWEST = VERSIONS[-1]
HOW_TO_GET_VERSIONS = "run `make newest`, or `make skew` for all versions (needs Go)"
_OF_MAKE_KUBE = "1.35"
_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")


def version_folder(minor: str, kube_binaries: Path, place: Path) -> Path | None:
    """A folder with all programs, made in ``place``; None if the control plane of that version was not built."""
    command = [sys.executable, str(REPOSITORY / "tools" / "kube" / "build.py"), f"kube-{minor}", "--print-dir"]
    if minor == _OF_MAKE_KUBE:
        return kube_binaries
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    built = Path(done.stdout.strip())
    if not all(os.access(built / name, os.X_OK) for name in _CONTROL_PLANE):
        return None
    for name in NEEDED:
        (place / name).symlink_to((built if name in _CONTROL_PLANE else kube_binaries) / name)
    return place
