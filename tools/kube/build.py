#!/usr/bin/env python3
"""Builds the real Kubernetes binaries that the comparison suites talk to (`make kube`).

The pins are the two Go modules beside this file; they hold no Go code, only `tool` lines. The binaries go into a cache
folder outside the tree that is named after the pinned versions, one by one and by rename, so that an interrupted build
leaves no half-written file and goes on where it stopped. `HEADGATE_KUBE_BIN` names a folder of binaries instead.
This file does not start anything: `tests/harness/real.py` does. Standard library only, it runs before there is a venv.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
BINARIES = ("etcd", *COMMANDS)
STAMP = "pins.sha256"


class Trouble(Exception):
    """What the user has to do something about, in one line."""


def pinned(module: str, requirement: str) -> str:
    """The version of `requirement` in the go.mod of `module`."""
    found = re.search(
        rf"^\s*(?:require )?{re.escape(requirement)} (v\S+)", (HERE / module / "go.mod").read_text(), re.M
    )
    if found is None:
        raise Trouble(f"tools/kube/{module}/go.mod does not require {requirement}: restore that line")
    return found[1]


def kubernetes_version() -> str:
    return pinned("kubernetes", "k8s.io/kubernetes")


def etcd_version() -> str:
    return pinned("etcd", "go.etcd.io/etcd/server/v3")


def pins() -> str:
    """A fingerprint of everything that decides what the binaries are, the indirect modules included."""
    digest = hashlib.sha256()
    for module in ("etcd", "kubernetes"):
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / module / name).read_bytes())
    return digest.hexdigest()


def binaries_dir() -> Path:
    """Where the binaries are, or will be."""
    given = os.environ.get("HEADGATE_KUBE_BIN")
    if given:
        return Path(given).expanduser().resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headgate" / "kube" / f"{kubernetes_version()}-etcd-{etcd_version()}"


def says_its_version(binary: Path) -> bool:
    """A truncated file does not run; a binary of another version says so."""
    arguments = ["version", "--client"] if binary.name == "kubectl" else ["--version"]
    wanted = etcd_version().removeprefix("v") if binary.name == "etcd" else kubernetes_version()
    try:
        done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and wanted in done.stdout.split()


def missing(folder: Path) -> list[str]:
    """The binaries that have to be built; a stamp of other pins makes that all of them."""
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text().strip() != pins():
        return list(BINARIES)
    return [name for name in BINARIES if not says_its_version(folder / name)]


def go_command() -> str:
    """A Go toolchain that is new enough for both modules."""
    wanted = max(
        (int(major), int(minor))
        for module in ("etcd", "kubernetes")
        for major, minor in re.findall(r"^go (\d+)\.(\d+)", (HERE / module / "go.mod").read_text(), re.M)
    )
    needed = f"Go {wanted[0]}.{wanted[1]} or newer"
    remedy = "install it from https://go.dev/dl or set HEADGATE_KUBE_BIN to a folder with " + ", ".join(BINARIES)
    go = shutil.which("go")
    if go is None:
        raise Trouble(f"{needed} is needed to build the real Kubernetes binaries and no `go` is on the PATH: {remedy}")
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, cwd="/")
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    if found is None or (int(found[1]), int(found[2])) < wanted:
        raise Trouble(f"{needed} is needed and {go} is {answer.stdout.strip() or 'broken'}: {remedy}")
    return go


def package_of(name: str) -> str:
    return "go.etcd.io/etcd/server/v3" if name == "etcd" else f"k8s.io/kubernetes/cmd/{name}"


def link_flags(name: str) -> str:
    if name == "etcd":
        return "-s -w"
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    variable = "-X k8s.io/component-base/version."
    return f"-s -w {variable}gitVersion={version} {variable}gitMajor={major} {variable}gitMinor={minor}"


def build_one(go: str, name: str, folder: Path) -> None:
    module = HERE / ("etcd" if name == "etcd" else "kubernetes")
    unfinished = folder / f".{name}.{os.getpid()}"
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
    }
    command = [go, "build", "-trimpath", "-ldflags", link_flags(name), "-o", str(unfinished), package_of(name)]
    try:
        done = subprocess.run(command, cwd=module, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            raise Trouble(f"building {name} failed in tools/kube/{module.name}: {last[0]} (run: make kube)")
        os.replace(unfinished, folder / name)
    finally:
        unfinished.unlink(missing_ok=True)


def build() -> None:
    folder = binaries_dir()
    given = "HEADGATE_KUBE_BIN" in os.environ and bool(os.environ["HEADGATE_KUBE_BIN"])
    if given:
        absent = [name for name in BINARIES if not os.access(folder / name, os.X_OK)]
        if absent:
            raise Trouble(f"HEADGATE_KUBE_BIN={folder} has no {', '.join(absent)}: add them or unset the variable")
        print(f"kube: using the binaries in {folder} (HEADGATE_KUBE_BIN)")
        return
    todo = missing(folder)
    versions = f"Kubernetes {kubernetes_version()}, etcd {etcd_version()}"
    if not todo:
        (folder / STAMP).write_text(pins() + "\n")
        print(f"kube: complete in {folder} ({versions})")
        return
    go = go_command()
    folder.mkdir(parents=True, exist_ok=True)
    # Whatever the stamp said is untrue from here until the last binary is in place.
    (folder / STAMP).unlink(missing_ok=True)
    print(f"kube: building {', '.join(todo)} ({versions}) into {folder}; about 6 minutes from cold caches", flush=True)
    for number, name in enumerate(todo, 1):
        started = time.monotonic()
        print(f"kube: [{number}/{len(todo)}] {name} …", flush=True)
        build_one(go, name, folder)
        print(f"kube: [{number}/{len(todo)}] {name} built in {time.monotonic() - started:.0f} s", flush=True)
    wrong = [name for name in BINARIES if not says_its_version(folder / name)]
    if wrong:
        raise Trouble(
            f"{', '.join(wrong)} in {folder} does not run or has another version: delete it and run make kube"
        )
    (folder / STAMP).write_text(pins() + "\n")
    print(f"kube: complete in {folder}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the real Kubernetes binaries by pinned version.")
    parser.add_argument("--print-dir", action="store_true", help="print the folder of the binaries and do nothing else")
    asked = parser.parse_args()
    try:
        if asked.print_dir:
            print(binaries_dir())
        else:
            build()
    except Trouble as trouble:
        print(f"kube: {trouble}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
