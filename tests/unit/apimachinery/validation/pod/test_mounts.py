"""Volume mounts and volume devices of one container: neither may take a path of the other."""

from __future__ import annotations

from typing import Any

from hashed_texts import HashedText
from headgate.apimachinery.validation.pod.mounts import validate_volume_devices, validate_volume_mounts

_VOLUMES: dict[str, dict[str, Any]] = {f"{kind}{number}": {} for kind in "md" for number in range(5)}


def a_container() -> dict[str, Any]:
    return {
        "volumeMounts": [{"name": f"m{number}", "mountPath": HashedText(f"/m{number}")} for number in range(5)],
        "volumeDevices": [{"name": f"d{number}", "devicePath": HashedText(f"/d{number}")} for number in range(5)],
    }


def test_a_path_is_not_compared_with_all_paths_of_the_other_list() -> None:
    container = a_container()
    container["volumeDevices"].append({"name": "d4", "devicePath": HashedText("/m3")})
    (mount,) = validate_volume_mounts(container, _VOLUMES, "mounts")
    assert str(mount) == 'mounts[3].mountPath: Invalid value: "/m3": must not already exist as a path in volumeDevices'
    devices = [str(each) for each in validate_volume_devices(container, _VOLUMES, "devices")]
    assert 'devices[5].devicePath: Invalid value: "/m3": must not already exist as a path in volumeMounts' in devices
