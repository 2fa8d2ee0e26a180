"""Programs of Debian packages that are unpacked and not installed: how to start them, and buildah in bubblewrap.

`tools/image/rootfs.py` unpacks the packages. A program of them is started by their own loader with their own libraries,
so it does not depend on what the machine has installed. buildah starts itself again by its path, so it needs the tree
as its root; bubblewrap gives it that. Used by `make rootfs` and by `tests/harness/container_image.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

STORE = "store"
BASE = "localhost/headgate-rootfs/base:latest"
BUILD_BASE = "localhost/headgate-rootfs/build-base:latest"


def loaded(tree: Path, program: str, at: Path | None = None) -> list[str]:
    """The command of a program of a tree, without arguments. `at`: where the program finds the tree, if elsewhere."""
    loader = next(path for name in ("lib64", "lib") for path in sorted((tree / "usr" / name).glob("ld-linux*.so.*")))
    libraries = next((tree / "usr" / "lib").glob("*-linux-gnu"))
    place = at or tree
    return [
        str(place / loader.relative_to(tree)),
        *("--library-path", str(place / libraries.relative_to(tree))),
        str(place / "usr" / "bin" / program),
    ]


def buildah(folder: Path, storage: Path, *, store: bool = True, readable: Iterable[Path] = ()) -> list[str]:
    """The command of buildah, without arguments.

    Images and containers are kept in `storage`; with `store` it also knows the base images of `make rootfs`. It reads
    the folders `readable` and the cache, writes to `storage` only, and has no network. Needs root: it mounts.
    """
    tree = folder / "builder"
    tops = [path.name for path in tree.iterdir() if path.is_symlink()]  # /bin, /lib and others lead to /usr
    options = [
        *("--die-with-parent", "--unshare-net", "--cap-add", "ALL"),
        *("--tmpfs", "/", "--ro-bind", str(tree / "usr"), "/usr", "--ro-bind", str(tree / "etc"), "/etc"),
        *(word for top in tops for word in ("--symlink", f"usr/{top}", f"/{top}")),
        *("--dev-bind", "/dev", "/dev", "--proc", "/proc", "--ro-bind", "/sys", "/sys"),
        *("--dir", "/tmp", "--dir", "/var/tmp"),
        *(word for path in (folder, *readable) for word in ("--ro-bind", str(path), str(path))),
        *("--bind", str(storage), str(storage)),
        *("--clearenv", "--setenv", "PATH", "/usr/bin", "--setenv", "HOME", "/tmp"),
        # No user namespace and no cgroup: a step of the build runs in a chroot.
        *("--setenv", "BUILDAH_ISOLATION", "chroot"),
    ]
    places = ("--storage-driver", "overlay", "--root", str(storage / "root"), "--runroot", str(storage / "run"))
    known = ("--storage-opt", f"overlay.imagestore={folder / STORE / 'root'}") if store else ()
    return [*loaded(tree, "bwrap"), *options, "--", "/usr/bin/buildah", *places, *known]
