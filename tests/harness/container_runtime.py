"""Runs containers of an unpacked image in bubblewrap, as a kubelet would run them: PID 1, a uid that is not root, no
capabilities, a read-only root file system, and the volumes of the pod.

The kernel sees the uid of the container, too, because bubblewrap itself is started with it. The network is that of the
machine, and there is no seccomp profile. A field that says more than this runtime can do is an error.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.image.sandbox import loaded

from harness.container_image import ContainerImage, ImageBuild
from harness.process_kubelet import Container
from harness.processes import Process

Object = dict[str, Any]

POD_FIELDS = {"runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile"}
CONTAINER_CONTEXT = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_TIMEOUT_S = 60.0


class ContainerProcess(Process):
    """bubblewrap and its child, which is PID 1 of the container: signals go to that one."""

    def signal(self, number: int) -> None:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        assert len(children) == 1, (children, self.tail())
        os.kill(int(children[0]), number)


class ContainerRuntime:
    """`place`: a folder that every user can read."""

    def __init__(self, build: ImageBuild, cache: Path, place: Path) -> None:
        self._build, self._place = build, place
        self._bubblewrap = _copied(cache / "builder", "bwrap", place / "programs")
        self.volumes: dict[str, Path] = {}

    @functools.cached_property
    def image(self) -> ContainerImage:
        """Waits for the end of the build."""
        return self._build.result()

    def run(self, *words: str, entrypoint: bool = True) -> subprocess.CompletedProcess[str]:
        """What a container without volumes, except one at /tmp, prints; `entrypoint`: that of the image."""
        user = int(str(self.image.config["User"]).partition(":")[0])
        folder = self._empty_folder("tmp", user)
        first = self.image.config["Entrypoint"] if entrypoint else []
        command = self._command([*first, *words], self.image.environment(), {"/tmp": (folder, "--bind")})
        done = subprocess.run(
            command, user=user, group=user, extra_groups=[], capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        shutil.rmtree(folder)
        return done

    def start(self, container: Container) -> ContainerProcess:
        """A container of a pod: what `ProcessKubelet` calls."""
        spec, (one,) = container.pod["spec"], container.pod["spec"]["containers"]
        context = spec["securityContext"]
        assert context.keys() == POD_FIELDS, context
        assert one["securityContext"] == CONTAINER_CONTEXT, one["securityContext"]
        user = context["runAsUser"]
        assert context == {**context, "runAsNonRoot": True, "runAsGroup": user, "fsGroup": user}, context
        assert user != 0, "runAsNonRoot: the container would run as root"
        kinds = {each["name"]: each for each in spec["volumes"]}
        mounts = {each["mountPath"]: self._volume(container, kinds[each["name"]], user) for each in one["volumeMounts"]}
        environment = self.image.environment() | {each["name"]: each["value"] for each in one["env"]}
        address = urlsplit(container.server.url)
        environment |= {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
        command = self._command([*one["command"], *container.arguments], environment, mounts)
        log = container.folder / f"{container.name}.log"
        return ContainerProcess(command, log, {}, user=user)

    def _command(
        self, words: Sequence[str], environment: Mapping[str, str], mounts: Mapping[str, tuple[Path, str]]
    ) -> list[str]:
        for path in mounts:  # container runtimes make mount points before the root becomes read-only
            point = (self.image.rootfs / path.lstrip("/")).resolve()
            assert point.is_relative_to(self.image.rootfs), f"{path} is a link out of the image"
            point.mkdir(parents=True, exist_ok=True)
        return [
            *self._bubblewrap,
            *("--die-with-parent", "--unshare-all", "--share-net", "--as-pid-1", "--cap-drop", "ALL"),
            *("--ro-bind", str(self.image.rootfs), "/", "--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
            *(word for path, (source, how) in mounts.items() for word in (how, str(source), path)),
            *("--chdir", self.image.config["WorkingDir"], "--clearenv"),
            *(word for name, value in environment.items() for word in ("--setenv", name, value)),
            *("--", *words),
        ]

    def _volume(self, container: Container, volume: Object, user: int) -> tuple[Path, str]:
        name = f"{container.name}-{volume['name']}"
        if volume.get("emptyDir") == {}:
            self.volumes[name] = self._empty_folder(name, user)
            return self.volumes[name], "--bind"
        sources = {key for each in volume["projected"]["sources"] for key in each}
        assert sources == {"serviceAccountToken", "configMap", "downwardAPI"}, volume
        folder = self._empty_folder(name, user)
        (folder / "token").write_text(container.token)
        (folder / "ca.crt").write_bytes(container.server.ca.read_bytes())
        (folder / "namespace").write_text(container.pod["metadata"]["namespace"])
        return folder, "--ro-bind"

    def _empty_folder(self, name: str, group: int) -> Path:
        """As the kubelet makes it with `fsGroup`: it belongs to root, and the group may write."""
        folder = self._place / "volumes" / name
        folder.mkdir(parents=True)
        os.chown(folder, 0, group)
        folder.chmod(0o2775)
        return folder


def _copied(tree: Path, program: str, place: Path) -> list[str]:
    """The command of a program that is copied with its libraries, because the cache may be closed to other users."""
    loader, option, libraries, file = loaded(tree, program)
    listed = subprocess.run([loader, option, libraries, "--list", file], check=True, capture_output=True, text=True)
    needed = [line.split("=> ")[1].split()[0] for line in listed.stdout.splitlines() if "=> /" in line]
    for each in (loader, file, *needed):
        copy = place / Path(each).relative_to(tree)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(each, copy)
    return loaded(tree, program, at=place)
