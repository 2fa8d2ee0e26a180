#!/usr/bin/env python3
"""Builds the real binaries that the comparison suites talk to: `make kube`, `make karpenter`, `make kueue`,
`make helm`, `make operators`; and further versions of Kubernetes for `make skew` (`kube-1.33` and so on).

The pins are the Go modules beside this file; they hold no Go code, only `tool` lines. The binaries go into a cache
folder outside the tree that is named after the pinned versions, one by one and by rename, so that an interrupted build
leaves no half-written file and goes on where it stopped. `HEADGATE_KUBE_BIN` names a folder of binaries instead.
This file does not start anything: `tests/harness/real_server.py` does. It uses the standard library and
`headgate.cli.options.progress` only, because it runs before there is a venv.
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
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "src"))
from headgate.cli.options.progress import ProgressBar  # noqa: E402  # it uses the standard library only

STAMP = "pins.sha256"


class Trouble(Exception):
    """What the user has to do something about, in one line."""


class Module(NamedTuple):
    """One of the Go modules beside this file."""

    folder: str
    requirement: str
    """What it is there to build: this one's version names the cache folder."""
    packages: dict[str, str]
    """The binaries, and the package that each is built from."""
    manifests: tuple[str, ...] = ()
    """Files of the required module that its users need too, as patterns; they are copied beside the binaries."""


class Set(NamedTuple):
    """What one target of the Makefile builds."""

    name: str
    what: str
    minutes: int
    modules: tuple[Module, ...]

    def homes(self) -> dict[str, Module]:
        return {binary: module for module in self.modules for binary in module.packages}


_COMMANDS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
_CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
ETCD = Module("etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"})
KUBERNETES = Module("kubernetes", "k8s.io/kubernetes", {name: f"k8s.io/kubernetes/cmd/{name}" for name in _COMMANDS})
KARPENTER = Module(
    "karpenter",
    "sigs.k8s.io/karpenter",
    {"karpenter": "sigs.k8s.io/karpenter/kwok"},
    ("pkg/apis/crds/*.yaml", "kwok/apis/crds/*.yaml"),
)
KWOK = Module(
    "kwok",
    "sigs.k8s.io/kwok",
    {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
    ("kustomize/stage/node/fast/node-*.yaml", "kustomize/stage/pod/fast/pod-*.yaml"),
)
KUEUE = Module(
    "kueue",
    "sigs.k8s.io/kueue",
    # Its core controllers and its scheduler, without webhooks, certificates and jobs: what its own benchmark runs.
    {"minimalkueue": "sigs.k8s.io/kueue/test/performance/scheduler/minimalkueue"},
    ("config/components/crd/bases/*.yaml",),
)
JOBSET = Module(
    "jobset", "sigs.k8s.io/jobset", {"jobset": "sigs.k8s.io/jobset"}, ("config/components/crd/bases/*.yaml",)
)
_RAY = "github.com/ray-project/kuberay/ray-operator"
KUBERAY = Module("kuberay", _RAY, {"kuberay": _RAY}, ("config/crd/bases/*.yaml",))
_TRAINING = "github.com/kubeflow/training-operator"
TRAINING_OPERATOR = Module(
    "training-operator",
    _TRAINING,
    {"training-operator": f"{_TRAINING}/cmd/training-operator.v1"},
    ("manifests/base/crds/kubeflow.org_*.yaml",),
)
LWS = Module("lws", "sigs.k8s.io/lws", {"lws": "sigs.k8s.io/lws/cmd"}, ("config/crd/bases/*.yaml",))
OPERATORS = (JOBSET, KUBERAY, TRAINING_OPERATOR, LWS)
HELM = Module("helm", "helm.sh/helm/v3", {"helm": "helm.sh/helm/v3/cmd/helm"})

SKEWED = {
    minor: Module(
        f"kubernetes-{minor}",
        KUBERNETES.requirement,
        {name: f"k8s.io/kubernetes/cmd/{name}" for name in _CONTROL_PLANE},
    )
    for minor in ("1.33", "1.34", "1.36")
}
"""The control planes of other minor versions, for the smoke suite; etcd and kubectl are those of `kube`."""
NEWEST = max(SKEWED, key=lambda minor: int(minor.split(".")[1]))

SETS = {
    "kube": Set("kube", "the real Kubernetes binaries", 6, (ETCD, KUBERNETES)),
    "karpenter": Set("karpenter", "Karpenter for simulated nodes", 4, (KARPENTER, KWOK)),
    "kueue": Set("kueue", "Kueue's scheduler", 4, (KUEUE,)),
    "helm": Set("helm", "Helm", 3, (HELM,)),
    "operators": Set("operators", "the operators of job kinds", 8, OPERATORS),
    **{
        f"kube-{minor}": Set(f"kube-{minor}", f"the control plane of Kubernetes {minor}", 6, (module,))
        for minor, module in SKEWED.items()
    },
}


def pinned(module: Module) -> str:
    """The version of what the module is there to build."""
    text = (HERE / module.folder / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(module.requirement)} (v\S+)", text, re.M)
    if found is None:
        raise Trouble(f"tools/kube/{module.folder}/go.mod does not require {module.requirement}: restore that line")
    return found[1]


def pins(chosen: Set) -> str:
    """A fingerprint of everything that decides what the binaries are, the indirect modules included."""
    digest = hashlib.sha256()
    for module in chosen.modules:
        for name in ("go.mod", "go.sum"):
            digest.update((HERE / module.folder / name).read_bytes())
    return digest.hexdigest()


def _given_folder(chosen: Set) -> str:
    """A folder has the binaries of one version of Kubernetes, so it is not used for other versions."""
    is_skewed = any(module in SKEWED.values() for module in chosen.modules)
    return "" if is_skewed else os.environ.get("HEADGATE_KUBE_BIN", "")


def binaries_dir(chosen: Set) -> Path:
    """Where the binaries are, or will be."""
    given = _given_folder(chosen)
    if given:
        return Path(given).expanduser().resolve()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if chosen.name == "kube":
        return cache / "headgate" / "kube" / f"{pinned(KUBERNETES)}-etcd-{pinned(ETCD)}"
    if chosen.name == "operators":
        return cache / "headgate" / "operators" / "-".join(f"{each.folder}-{pinned(each)}" for each in chosen.modules)
    if chosen.name in ("kueue", "helm"):
        return cache / "headgate" / chosen.name / pinned(chosen.modules[0])
    if chosen.modules[0] in SKEWED.values():
        return cache / "headgate" / "kube" / pinned(chosen.modules[0])
    return cache / "headgate" / "karpenter" / f"{pinned(KARPENTER)}-kwok-{pinned(KWOK)}"


def is_sound(binary: Path, module: Module) -> bool:
    """A truncated file does not run; a binary of another version says so."""
    version = pinned(module)
    if module in (
        KARPENTER,
        KWOK,
        KUEUE,
        HELM,
        *OPERATORS,
    ):  # none says its version unless built by its own makefile; the linker does
        line = f"\t{module.requirement}\t{version}\t".encode()
        return os.access(binary, os.X_OK) and line in binary.read_bytes()
    arguments = ["version", "--client"] if binary.name == "kubectl" else ["--version"]
    wanted = version.removeprefix("v") if module is ETCD else version
    try:
        done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and wanted in done.stdout.split()


def missing(chosen: Set, folder: Path) -> list[str]:
    """The binaries that have to be built; a stamp of other pins makes that all of them."""
    stamp = folder / STAMP
    homes = chosen.homes()
    if stamp.exists() and stamp.read_text().strip() != pins(chosen):
        return list(homes)
    return [name for name, module in homes.items() if not is_sound(folder / name, module)]


def go_command(chosen: Set) -> str:
    """A Go toolchain that is new enough for all modules of the set."""
    wanted = max(
        (int(major), int(minor))
        for module in chosen.modules
        for major, minor in re.findall(r"^go (\d+)\.(\d+)", (HERE / module.folder / "go.mod").read_text(), re.M)
    )
    needed = f"Go {wanted[0]}.{wanted[1]} or newer"
    remedy = "install it from https://go.dev/dl or set HEADGATE_KUBE_BIN to a folder with " + ", ".join(chosen.homes())
    go = shutil.which("go")
    if go is None:
        raise Trouble(f"{needed} is needed to build {chosen.what} and no `go` is on the PATH: {remedy}")
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, cwd="/")
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    if found is None or (int(found[1]), int(found[2])) < wanted:
        raise Trouble(f"{needed} is needed and {go} is {answer.stdout.strip() or 'broken'}: {remedy}")
    return go


def link_flags(module: Module) -> str:
    if module is HELM:  # without a server it assumes this version of Kubernetes
        major, minor, _ = pinned(KUBERNETES).removeprefix("v").split(".")
        version = f"-X helm.sh/helm/v3/internal/version.version={pinned(HELM)}"
        packages = ("lint/rules", "chartutil")
        assumed = (
            f"-X helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={number}"
            for package in packages
            for part, number in (("Major", major), ("Minor", minor))
        )
        return " ".join(("-s -w", version, *assumed))
    if module.requirement != KUBERNETES.requirement:
        return "-s -w"
    version = pinned(module)
    major, minor, _ = version.removeprefix("v").split(".")
    variable = "-X k8s.io/component-base/version."
    return f"-s -w {variable}gitVersion={version} {variable}gitMajor={major} {variable}gitMinor={minor}"


def run_go(go: str, module: Module, *arguments: str) -> str:
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false -mod=readonly",
        "GOTOOLCHAIN": "local",
    }
    folder = HERE / module.folder
    done = subprocess.run([go, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise Trouble(f"go {arguments[0]} failed in tools/kube/{module.folder}: {last[0]}")
    return done.stdout.strip()


def build_one(go: str, name: str, module: Module, folder: Path) -> None:
    unfinished = folder / f".{name}.{os.getpid()}"
    try:
        flags = ("-trimpath", "-ldflags", link_flags(module), "-o", str(unfinished))
        run_go(go, module, "build", *flags, module.packages[name])
        os.replace(unfinished, folder / name)
    finally:
        unfinished.unlink(missing_ok=True)


def copy_manifests(go: str, module: Module, folder: Path) -> None:
    if not module.manifests:
        return
    source = Path(run_go(go, module, "list", "-m", "-f", "{{.Dir}}", module.requirement))
    place = folder / f"{module.folder}-manifests"
    place.mkdir(exist_ok=True)
    for pattern in module.manifests:
        for file in sorted(source.glob(pattern)):
            (place / file.name).write_bytes(file.read_bytes())


def build(chosen: Set) -> None:
    folder, homes = binaries_dir(chosen), chosen.homes()
    if _given_folder(chosen):
        absent = [name for name in homes if not os.access(folder / name, os.X_OK)]
        if absent:
            raise Trouble(f"HEADGATE_KUBE_BIN={folder} has no {', '.join(absent)}: add them or unset the variable")
        print(f"{chosen.name}: using the binaries in {folder} (HEADGATE_KUBE_BIN)")
        return
    todo = missing(chosen, folder)
    versions = ", ".join(f"{module.folder} {pinned(module)}" for module in chosen.modules)
    copies = any(module.manifests for module in chosen.modules)
    if not todo and (not copies or (folder / STAMP).exists()):
        (folder / STAMP).write_text(pins(chosen) + "\n")
        print(f"{chosen.name}: complete in {folder} ({versions})")
        return
    go = go_command(chosen)
    folder.mkdir(parents=True, exist_ok=True)
    # Whatever the stamp said is untrue from here until the last binary is in place.
    (folder / STAMP).unlink(missing_ok=True)
    if todo:
        duration = f"about {chosen.minutes} minutes from cold caches"
        print(f"{chosen.name}: building {', '.join(todo)} ({versions}) into {folder}; {duration}", flush=True)
    progress = ProgressBar(f"building {chosen.name}", len(todo), "binaries")
    for number, name in enumerate(todo, 1):
        started = time.monotonic()
        print(f"{chosen.name}: [{number}/{len(todo)}] {name} …", flush=True)
        with progress:
            progress(number - 1)
            build_one(go, name, homes[name], folder)
        print(f"{chosen.name}: [{number}/{len(todo)}] {name} built in {time.monotonic() - started:.0f} s", flush=True)
    for module in chosen.modules:
        copy_manifests(go, module, folder)
    wrong = [name for name, module in homes.items() if not is_sound(folder / name, module)]
    if wrong:
        raise Trouble(
            f"{', '.join(wrong)} in {folder} does not run or has another version: delete it and run make {chosen.name}"
        )
    (folder / STAMP).write_text(pins(chosen) + "\n")
    print(f"{chosen.name}: complete in {folder}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Build real binaries by pinned version.")
    names = (*sorted(SETS), "newest")
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"what to build: {', '.join(names)} [default: kube]")
    parser.add_argument("--print-dir", action="store_true", help="print the folder of the binaries and do nothing else")
    asked = parser.parse_args()
    unknown = [name for name in asked.sets if name not in names]
    if unknown:
        parser.error(f"no set {unknown[0]}: choose from {', '.join(names)}")
    for name in asked.sets or ["kube"]:
        chosen = SETS[f"kube-{NEWEST}" if name == "newest" else name]
        try:
            if asked.print_dir:
                print(binaries_dir(chosen))
            else:
                build(chosen)
        except Trouble as trouble:
            print(f"{chosen.name}: {trouble}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
