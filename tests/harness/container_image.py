"""The image of deploy/Containerfile, built by `make image` with a real buildah, and unpacked.

`make rootfs` has the base images and buildah; no registry is asked and no network is there. `container_runtime.py` runs
containers of the image.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from tools.image.rootfs import rootfs_dir
from tools.image.sandbox import BASE, BUILD_BASE, buildah

from harness.real_server import REPOSITORY

Object = dict[str, Any]

HOW_TO_GET_THE_ROOTFS = "run `make rootfs` (needs apt-get and root)"
IMAGE = "localhost/headgate:test"
_TIMEOUT_S = 300.0


def rootfs_folder() -> Path | None:
    """What `make rootfs` has unpacked, or None if it did not, or if this user cannot mount."""
    folder = rootfs_dir()
    return folder if os.geteuid() == 0 and folder.is_dir() else None


class ContainerImage(NamedTuple):
    """An image, unpacked by the rules of OCI images."""

    rootfs: Path
    config: Object
    """User, Env, Entrypoint, Cmd, WorkingDir, Labels."""
    added: tuple[str, ...]
    """The files and folders of the last layer."""

    def environment(self) -> dict[str, str]:
        return dict(each.split("=", 1) for each in self.config["Env"])


class ImageBuild:
    """A build that runs in the background until `result` is called."""

    def __init__(self, cache: Path, place: Path) -> None:
        self._place = place
        for name in ("bin", "storage"):
            (place / name).mkdir()
        command = buildah(cache, place / "storage", readable=[REPOSITORY])
        self._buildah = place / "bin" / "buildah"
        self._buildah.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        self._buildah.chmod(0o755)
        self._log = place / "build.log"
        bases = (f"BASE={BASE}", f"BUILD_BASE={BUILD_BASE}")
        words = ["make", "--no-print-directory", "image", f"IMAGE={IMAGE}", *bases, "BUILDER=buildah", "ARGS="]
        # Without the variables of a make that started this test run.
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        environment["PATH"] = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
        with self._log.open("w") as output:
            self._make = subprocess.Popen(
                words,
                cwd=REPOSITORY,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def finished(self) -> tuple[int, str]:
        """Its exit code and what it printed."""
        return self._make.wait(_TIMEOUT_S), self._log.read_text()

    def result(self) -> ContainerImage:
        code, printed = self.finished()
        assert code == 0, printed
        pushed = self._place / "storage" / "pushed"
        words = ("push", "--quiet", "--disable-compression", IMAGE, f"dir:{pushed}")
        subprocess.run([str(self._buildah), *words], check=True, capture_output=True, cwd=REPOSITORY)
        manifest = json.loads((pushed / "manifest.json").read_text())
        rootfs = self._place / "rootfs"
        rootfs.mkdir()
        added: list[str] = []
        for layer in manifest["layers"]:
            command = ["tar", "--extract", "--verbose", "--numeric-owner", "--directory", str(rootfs)]
            command += ["--file", str(_blob(pushed, layer))]
            added = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
            assert not [name for name in added if Path(name).name.startswith(".wh.")], "no layer deletes a file"
        config: Object = json.loads(_blob(pushed, manifest["config"]).read_text())["config"]
        return ContainerImage(rootfs, config, tuple(added))


def _blob(folder: Path, descriptor: Object) -> Path:
    return folder / str(descriptor["digest"]).removeprefix("sha256:")
