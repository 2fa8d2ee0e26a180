"""The volume that the index finds for a claim is the one that a scan of all volumes finds."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.volume_index import AvailableVolumeIndex
from headgate.kube.labels import from_label_selector

Object = dict[str, Any]

MODES = st.sets(st.sampled_from(["RWO", "ROX", "RWX"]), min_size=1).map(sorted)
CLASSES = st.sampled_from(["", "x"])
SIZES = st.integers(1, 4).map(lambda number: f"{number}Gi")
LABELS = st.sampled_from([{}, {"kind": "fast"}])
REFS: st.SearchStrategy[Object | None] = st.sampled_from(
    [None] * 3
    + [{"namespace": "a", "name": "d"}]
    + [{"namespace": "a", "name": "c", "uid": uid} for uid in ("", "u", "x")]
)
VOLUMES = st.builds(
    lambda name, modes, on_class, size, labels, ref, phase, block, going: {
        "metadata": {"name": f"v{name}", "labels": labels, **({"deletionTimestamp": "t"} if going else {})},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": modes,
            "storageClassName": on_class,
            **({"claimRef": ref} if ref else {}),
            **({"volumeMode": "Block"} if block else {}),
        },
        "status": {"phase": phase},
    },
    st.integers(0, 7),
    MODES,
    CLASSES,
    SIZES,
    LABELS,
    REFS,
    st.sampled_from(["Available", "Available", "Released"]),
    st.integers(0, 5).map(lambda number: number == 0),
    st.integers(0, 5).map(lambda number: number == 0),
)
CLAIMS = st.builds(
    lambda modes, on_class, size, selector: {
        "metadata": {"namespace": "a", "name": "c", "uid": "u"},
        "spec": {
            "accessModes": modes,
            "storageClassName": on_class,
            "resources": {"requests": {"storage": size}},
            **({"selector": selector} if selector is not None else {}),
        },
    },
    MODES,
    CLASSES,
    SIZES,
    st.sampled_from([None, None, {"matchLabels": {"kind": "fast"}}]),
)


def slowly_found(volumes: dict[str, Object], claim: Object, *, only_meant: bool) -> str | None:
    """The order of the rules: number of modes, volumes reserved for the claim first, then size, then name."""
    wanted = set(claim["spec"]["accessModes"])
    sets = {tuple(each["spec"]["accessModes"]) for each in volumes.values()}
    for modes in sorted((each for each in sets if wanted <= set(each)), key=lambda each: (len(each), each)):
        candidates = []
        for name, volume in sorted(volumes.items()):
            spec, ref = volume["spec"], volume["spec"].get("claimRef")
            if tuple(spec["accessModes"]) != modes or object_fields.capacity(volume) < object_fields.requested(claim):
                continue
            if "volumeMode" in spec or "deletionTimestamp" in volume["metadata"]:
                continue
            if ref is not None:
                if ref["name"] == "c" and ref.get("uid") in ("", "u"):
                    return name
                continue
            selector = claim["spec"].get("selector")
            suits = selector is None or from_label_selector(selector).matches(volume["metadata"]["labels"])
            same_class = spec["storageClassName"] == claim["spec"]["storageClassName"]
            if suits and same_class and volume["status"]["phase"] == "Available" and not only_meant:
                candidates.append((object_fields.capacity(volume), name))
        if candidates:
            return min(candidates)[1]
    return None


def _is_free(volume: Object) -> bool:
    return bool(volume["status"]["phase"] == "Available" and "deletionTimestamp" not in volume["metadata"])


@given(st.lists(st.one_of(VOLUMES, st.integers(0, 7)), max_size=20), CLAIMS, st.booleans())
def test_the_index_finds_the_same_volume_as_a_scan(moves: list[Any], claim: Object, only_meant: bool) -> None:
    index, volumes = AvailableVolumeIndex(), dict[str, Object]()
    for move in moves:
        if isinstance(move, int):
            volumes.pop(f"v{move}", None)
            index.drop(f"v{move}")
        else:
            volumes[move["metadata"]["name"]] = move
            index.put(move)
    free = [each for each in volumes.values() if "claimRef" not in each["spec"] and _is_free(each)]
    for name in ("", "x"):
        assert index.count(name) == sum(each["spec"]["storageClassName"] == name for each in free)
    found = index.find(claim, only_prebound=only_meant)
    assert (None if found is None else found["metadata"]["name"]) == slowly_found(volumes, claim, only_meant=only_meant)
