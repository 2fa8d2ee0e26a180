#!/usr/bin/env python3
"""Gets what the observability suite runs: Debian's Prometheus with promtool, and the CustomResourceDefinitions of the
Prometheus Operator: `make prometheus`.

`apt-get download` gets the package and checks its signature; `dpkg-deb -x` unpacks it. Nothing is installed on this
machine. The definitions are files of a Go module, whose checksum is pinned below. All of it goes into a cache folder
outside the tree, together with a file that names the versions. `HEADGATE_KUBE_BIN` names a folder of binaries instead.
This file does not start anything: `tests/harness/prometheus.py` does. It uses the standard library only, because it
runs before there is a venv.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

PACKAGE = "prometheus"
PROGRAMS = ("prometheus", "promtool")
OPERATOR = "github.com/prometheus-operator/prometheus-operator"
OPERATOR_VERSION = "v0.85.0"
OPERATOR_SUM = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
DEFINITIONS = "example/prometheus-operator-crd"
KINDS = ("podmonitors", "prometheusrules", "servicemonitors")
MANIFESTS = "prometheus-operator-manifests"
VERSIONS = "versions.json"


class Trouble(Exception):
    """What the user has to do something about, in one line."""


def home() -> Path:
    """Where the programs and the definitions are, or will be."""
    given = os.environ.get("HEADGATE_KUBE_BIN")
    if given:
        return Path(given).expanduser().resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headgate" / "prometheus"


def missing(folder: Path) -> list[str]:
    """What is not there, or does not run."""
    absent = [name for name in PROGRAMS if not _runs(folder / name)]
    files = [f"{MANIFESTS}/monitoring.coreos.com_{kind}.yaml" for kind in KINDS]
    return absent + [name for name in files if not (folder / name).is_file()]


def _runs(program: Path) -> bool:
    try:
        return subprocess.run([str(program), "--version"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def run(command: Sequence[str], folder: Path, **more: str) -> str:
    """What a command prints that succeeds."""
    environment = {**os.environ, "LC_ALL": "C", **more}
    try:
        done = subprocess.run(list(command), cwd=folder, env=environment, capture_output=True, text=True)
    except FileNotFoundError:
        remedy = f"install it, or set HEADGATE_KUBE_BIN to a folder with {', '.join(PROGRAMS)} and {MANIFESTS}"
        raise Trouble(f"{command[0]} is not on the PATH: {remedy}") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Trouble(f"{' '.join(command)} failed: {last[0]}")
    return done.stdout


def download(folder: Path) -> Path:
    """The package. Where this machine has no package lists, or old ones, it is found with lists of our own."""
    apt = ["apt-get", "-q", "-o", "APT::Sandbox::User=root"]
    try:
        run([*apt, "download", PACKAGE], folder)
    except Trouble:
        if shutil.which("apt-get") is None:
            raise
        (folder / "lists" / "partial").mkdir(parents=True)
        (folder / "archives" / "partial").mkdir(parents=True)
        apt += ["-o", f"Dir::State::lists={folder / 'lists'}", "-o", f"Dir::Cache={folder}"]
        run([*apt, "update"], folder)
        run([*apt, "download", PACKAGE], folder)
    return next(folder.glob(f"{PACKAGE}_*.deb"))


def get_programs(folder: Path) -> str:
    """Puts the programs into the folder; the version of the package."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        package = download(Path(place))
        run(["dpkg-deb", "-x", str(package), "unpacked"], Path(place))
        for name in PROGRAMS:
            os.replace(Path(place) / "unpacked" / "usr" / "bin" / name, folder / name)
        return run(["dpkg-deb", "-f", str(package), "Version"], Path(place)).strip()


def get_definitions(folder: Path) -> None:
    """Puts the definitions into the folder."""
    with tempfile.TemporaryDirectory(dir=folder) as place:  # outside a module, so that no go.mod has a say
        command = ["go", "mod", "download", "-json", f"{OPERATOR}@{OPERATOR_VERSION}"]
        found = json.loads(run(command, Path(place), GOSUMDB="off", GOFLAGS="", GOTOOLCHAIN="local"))
    if found["Sum"] != OPERATOR_SUM:
        raise Trouble(f"{OPERATOR} {OPERATOR_VERSION} has the checksum {found['Sum']}, not {OPERATOR_SUM}")
    (folder / MANIFESTS).mkdir(exist_ok=True)
    for kind in KINDS:
        name = f"monitoring.coreos.com_{kind}.yaml"
        (folder / MANIFESTS / name).write_bytes((Path(found["Dir"]) / DEFINITIONS / name).read_bytes())


def get() -> None:
    folder = home()
    if os.environ.get("HEADGATE_KUBE_BIN"):
        if absent := missing(folder):
            raise Trouble(f"HEADGATE_KUBE_BIN={folder} has no {', '.join(absent)}: add them or unset the variable")
        print(f"prometheus: using the programs in {folder} (HEADGATE_KUBE_BIN)")
        return
    stamp = folder / VERSIONS
    if missing(folder) or not stamp.is_file() or json.loads(stamp.read_text())["operator"] != OPERATOR_VERSION:
        folder.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        print(f"prometheus: getting Debian's package and {len(KINDS)} definitions into {folder}", flush=True)
        version = get_programs(folder)
        get_definitions(folder)
        if wrong := missing(folder):
            raise Trouble(f"{', '.join(wrong)} in {folder} is absent or does not run: delete the folder and try again")
        stamp.write_text(json.dumps({"prometheus": version, "operator": OPERATOR_VERSION}) + "\n")
    versions = json.loads(stamp.read_text())
    print(f"prometheus: complete in {folder} ({', '.join(f'{name} {each}' for name, each in versions.items())})")


def main() -> int:
    parser = argparse.ArgumentParser(description="Get Debian's Prometheus and the definitions of its operator.")
    parser.add_argument("--print-dir", action="store_true", help="print the folder and do nothing else")
    asked = parser.parse_args()
    try:
        if asked.print_dir:
            print(home())
        else:
            get()
    except Trouble as trouble:
        print(f"prometheus: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
