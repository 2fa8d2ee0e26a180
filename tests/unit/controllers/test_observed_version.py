"""The version that a write was decided on."""

from __future__ import annotations

from headgate.controllers.framework.mutation_cache import ObservedVersion


def an_object(uid: str = "u", version: str = "7") -> dict[str, dict[str, str]]:
    return {"metadata": {"uid": uid, "resourceVersion": version}}


def test_a_version_is_the_same_for_the_same_uid_and_resource_version() -> None:
    observed = ObservedVersion.of(an_object())
    assert observed.is_same(an_object())
    assert not observed.is_same(an_object(version="8"))
    assert not observed.is_same(an_object(uid="other"))


def test_objects_without_a_version_are_never_the_same() -> None:
    assert not ObservedVersion.of({}).is_same({})
    assert not ObservedVersion.of({"metadata": {"uid": "u"}}).is_same({"metadata": {"uid": "u"}})
