#!/usr/bin/env python3
"""Unpacks Debian packages into the root file systems with which the suite of the image works: `make rootfs`.

No registry of images is needed, and nothing is installed on this machine. apt reads the sources of the machine and
keeps its lists and files in a temporary folder. There are three trees:

- `base`: Python without shell, pip and compiler; the last stage of deploy/Containerfile starts from it.
- `build-base`: the same Python with venv, a shell, and the wheels of the locked requirements; the first stage.
- `builder`: buildah and bubblewrap.

The first two become images for buildah, in the folder `store`. The cache folder is named after what decides its
contents, and gets its name when it is complete. This file uses the standard library only, because it runs before there
is a venv.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tools.image.sandbox import BASE, BUILD_BASE, STORE, buildah, loaded

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ("requirements/build.txt", "requirements/runtime.txt")
NEEDED = ("apt-get", "dpkg-deb", "tar")
WHEELS = "/wheels"
_UNNEEDED = ("./usr/share/doc", "./usr/share/man", "./usr/share/locale", "./usr/share/perl")
_MERGED = ("bin", "sbin", "lib", "lib64")
_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'


class RootfsError(Exception):
    """What the user has to do something about, in one line."""


class Rootfs(NamedTuple):
    name: str
    packages: tuple[str, ...]
    """Without the packages that they depend on; no package is taken as installed."""


TREES = (
    Rootfs("base", ("python3", "libstdc++6")),
    Rootfs("build-base", ("python3", "python3-venv", "dash", "coreutils")),
    Rootfs("builder", ("buildah", "bubblewrap")),
)


def fingerprint() -> str:
    """Of everything in the repository that decides what the cache folder contains."""
    digest = hashlib.sha256()
    for name in ("tools/image/rootfs.py", "tools/image/sandbox.py", *REQUIREMENTS):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()[:16]


def rootfs_dir() -> Path:
    """Where the trees are, or will be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "headgate" / "image" / f"{platform.machine()}-{fingerprint()}"


def run(*command: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise RootfsError(f"{' '.join(command[:6])} … ended with {done.returncode}:\n{last}")
    return done.stdout


class Packages:
    """apt with lists of its own, and no package that counts as installed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        self._apt("update")

    def fetch(self, rootfs: Rootfs) -> list[Path]:
        """The packages and all that they depend on; apt checks their hashes and the signature of the archive."""
        archives = self._folder / rootfs.name
        (archives / "partial").mkdir(parents=True)
        words = ("--no-install-recommends", "--download-only", "--yes", "install", *rootfs.packages)
        self._apt("-o", f"Dir::Cache::archives={archives}", *words)
        return sorted(archives.glob("*.deb"))

    def _apt(self, *words: str) -> None:
        folder = self._folder
        options = {
            "Dir::State": folder,
            "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Debug::NoLocking": "true",
        }
        run("apt-get", "-qq", *(word for name, value in options.items() for word in ("-o", f"{name}={value}")), *words)


def unpack(packages: list[Path], tree: Path) -> None:
    """The files of the packages, with /bin and /lib below /usr. No script of a package runs."""
    for name in _MERGED:
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for name in ("dev", "etc", "proc", "root", "run", "sys", "tmp", "var/tmp"):
        (tree / name).mkdir(parents=True)
    left_out = [f"--exclude={path}" for path in _UNNEEDED]
    for package in packages:
        read = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE)
        command = ["tar", "-x", "-C", str(tree), "--keep-directory-symlink", *left_out]
        done = subprocess.run(command, stdin=read.stdout, capture_output=True, text=True)
        if read.wait() != 0 or done.returncode != 0:
            raise RootfsError(f"{package.name} cannot be unpacked: {done.stderr.strip()}; run make rootfs again")
    (tree / "tmp").chmod(0o1777)
    if (tree / "usr" / "bin" / "python3").exists():  # as the scripts of its packages would do
        words = ("-m", "compileall", "-q", "-s", str(tree), "-p", "/", "--invalidation-mode", "unchecked-hash")
        library = tree / "usr" / "lib" / (tree / "usr" / "bin" / "python3").resolve().name
        run(*loaded(tree, "python3"), *words, str(library), environment={"PYTHONHOME": str(tree / "usr")})
    (tree / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tree / "etc" / "group").write_text("root:x:0:\n")
    for name in ("hosts", "resolv.conf"):  # buildah copies them
        (tree / "etc" / name).touch()


def fetch_wheels(tree: Path) -> None:
    """The wheels of the locked requirements for the Python of the tree, and a pip in the tree that uses no others."""
    (pip,) = (tree / "usr" / "share" / "python-wheels").glob("pip-*.whl")
    settings = {"PYTHONHOME": str(tree / "usr"), "PYTHONPATH": str(pip), "PYTHONDONTWRITEBYTECODE": "1"}
    python = (*loaded(tree, "python3"), "-m", "pip")
    wheels = tree / WHEELS.strip("/")
    for name in REQUIREMENTS:
        words = ("--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:", "--dest", str(wheels))
        run(*python, "download", *words, "--requirement", str(ROOT / name), environment={**os.environ, **settings})
    (tree / "etc" / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {WHEELS}\n")


def import_images(folder: Path) -> None:
    """Both bases as images, as `FROM` of deploy/Containerfile names them."""
    storage = folder / STORE
    storage.mkdir()
    command = buildah(folder, storage, store=False)
    for name, image in (("base", BASE), ("build-base", BUILD_BASE)):
        container = run(*command, "from", "scratch").strip()
        run(*command, "add", "--quiet", container, str(folder / name), "/")
        run(*command, "config", "--env", "PATH=/usr/bin", container)
        run(*command, "commit", "--quiet", "--rm", container, image)
        shutil.rmtree(folder / name)  # the store has a copy
    shutil.rmtree(storage / "run", ignore_errors=True)


def make(folder: Path) -> None:
    absent = [name for name in NEEDED if shutil.which(name) is None]
    if absent:
        raise RootfsError(f"no {', '.join(absent)} on the PATH: run it on Debian or Ubuntu")
    if os.geteuid() != 0:
        raise RootfsError("buildah mounts the base images: run it as root")
    began = time.monotonic()
    print(f"rootfs: unpacking Debian packages into {folder}; about a minute", flush=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="unfinished-") as place:
        made = Path(place) / "rootfs"
        packages = Packages(Path(place) / "apt")
        for rootfs in TREES:
            unpack(packages.fetch(rootfs), made / rootfs.name)
        containers = made / "builder" / "etc" / "containers"
        containers.mkdir(exist_ok=True)
        (containers / "policy.json").write_text(_POLICY)
        fetch_wheels(made / "build-base")
        import_images(made)
        made.rename(folder)
    print(f"rootfs: complete in {folder} after {time.monotonic() - began:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make rootfs", description="Unpack Debian packages for the suite of the image."
    )
    parser.add_argument("--print-dir", action="store_true", help="print the folder of the trees and do nothing else")
    folder = rootfs_dir()
    if parser.parse_args().print_dir:
        print(folder)
    elif folder.is_dir():
        print(f"rootfs: complete in {folder}")
    else:
        try:
            make(folder)
        except RootfsError as error:
            print(f"rootfs: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
