#!/usr/bin/env python3
"""Builds the image of deploy/Containerfile with buildah, podman or docker: `make image`.

It finds the builder, and gives it the version, the revision and the time of the commit, so that two builds of one
commit on one base are equal. It uses the standard library only, because it needs no venv.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = "deploy/Containerfile"
BUILDERS = ("buildah", "podman", "docker")


class ImageError(Exception):
    """What the user has to do something about."""


def version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/headgate/__init__.py").read_text(), re.M)
    if found is None:
        raise ImageError("src/headgate/__init__.py has no __version__: restore that line")
    return found[1]


def asked(*command: str) -> str | None:
    """What a command prints, or None if it is not there or fails."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def revision() -> str:
    """The commit; with `-dirty` if files differ from it."""
    commit = asked("git", "rev-parse", "HEAD")
    if commit is None:
        return "unknown"
    return f"{commit}-dirty" if asked("git", "status", "--porcelain") else commit


def find_builder(wanted: str | None) -> str:
    """The name of a builder that works."""
    names = (wanted,) if wanted else BUILDERS
    found = [name for name in names if shutil.which(name)]
    if not found:
        raise ImageError(
            f"no {' or '.join(names)} is on the PATH: install one of them (Debian: apt-get install buildah), "
            f"or build {FILE} with another builder"
        )
    if found == ["docker"] and asked("docker", "version") is None:
        raise ImageError(
            "docker is on the PATH, but its daemon does not answer (`docker version` fails): "
            "start the daemon, or install buildah or podman"
        )
    return found[0]


def command(builder: str, image: str, arguments: dict[str, str], epoch: str | None, more: Sequence[str]) -> list[str]:
    words = [builder, "build", "--file", FILE, "--tag", image]
    if epoch is not None and builder == "docker":
        arguments = {**arguments, "SOURCE_DATE_EPOCH": epoch}
    elif epoch is not None:
        words += ["--timestamp", epoch]
    for name, value in arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    return [*words, *more, "."]


def build(options: argparse.Namespace) -> None:
    builder = find_builder(options.builder)
    image = options.image or f"headgate:{version()}"
    arguments = {"VERSION": version(), "REVISION": revision()}
    arguments |= {"BASE": options.base} if options.base else {}
    arguments |= {"BUILD_BASE": options.build_base} if options.build_base else {}
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or asked("git", "log", "-1", "--format=%ct")
    words = command(builder, image, arguments, epoch, options.more)
    print(f"image: {' '.join(words)}", flush=True)
    if subprocess.run(words, cwd=ROOT).returncode != 0:
        raise ImageError(f"{builder} could not build {image}; its last lines say why")
    print(f"image: {image} is built")
    if "@sha256:" not in (options.base or ""):
        print("image: the base has no digest; BASE=NAME@sha256:DIGEST builds on the same base each time")
    name = image if "/" in image else f"REGISTRY/{image}"
    print(f"image: next: push it to a registry that your nodes can reach, then headgate install --image {name}")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make image",
        description="Build the image of deploy/Containerfile with buildah, podman or docker.",
        epilog="Example: make image IMAGE=registry.example/headgate:1 BASE=python@sha256:DIGEST",
    )
    parser.add_argument("--image", help="the name of the image; headgate:VERSION if absent (IMAGE)")
    parser.add_argument("--base", help="the image that it starts from (BASE)")
    parser.add_argument("--build-base", help="the image that installs it; the same as --base if absent (BUILD_BASE)")
    parser.add_argument("--builder", choices=BUILDERS, help="one of them; the first on the PATH if absent (BUILDER)")
    parser.add_argument("more", nargs="*", help="options for the builder, after -- (ARGS)")
    try:
        build(parser.parse_args())
    except ImageError as error:
        print(f"image: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
