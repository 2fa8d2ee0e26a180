"""All claims, volumes and classes, indexed by each other's names. Own writes count as seen at once.

A version that is older than the known one is ignored: a watch may be late.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Final, Literal

from headgate.controllers.framework.effects import Effect, EffectResponse, EmitEvent, Patch
from headgate.controllers.volumes import object_fields
from headgate.controllers.volumes.object_fields import ClaimKey, Object
from headgate.controllers.volumes.volume_index import AvailableVolumeIndex
from headgate.kube.api_resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, APIResource

WriteSteps = Generator[Effect, EffectResponse, str | None]
"""Yields the writes of a sync, and returns an error message or None."""

COMPONENT: Final = "persistentvolume-controller"
_KINDS: Final = {PERSISTENT_VOLUME_CLAIMS: "PersistentVolumeClaim", PERSISTENT_VOLUMES: "PersistentVolume"}


class PersistentVolumeCache:
    def __init__(self) -> None:
        self.claims: Final[dict[ClaimKey, Object]] = {}
        self.volumes: Final[dict[str, Object]] = {}
        self.classes: Final[dict[str, Object]] = {}
        self.available: Final = AvailableVolumeIndex()
        self._by_volume: Final[dict[str, dict[ClaimKey, None]]] = {}
        self._unbound: Final[dict[str, dict[ClaimKey, None]]] = {}
        self._last_event: Final[dict[str, tuple[str, str]]] = {}

    # -- lookups and updates ---------------------------------------------------------------------------------------

    def put_claim(self, claim: Object) -> bool:
        """Returns False if the version is older than the known one."""
        key = object_fields.key_of(claim)
        known = self.claims.get(key)
        if known is not None and object_fields.is_older(claim, known):
            return False
        self.drop_claim(key)
        self.claims[key] = claim
        name = object_fields.spec_of(claim).get("volumeName")
        if name:
            self._by_volume.setdefault(name, {})[key] = None
        else:
            self._unbound.setdefault(object_fields.storage_class_name_of(claim), {})[key] = None
        return True

    def drop_claim(self, key: ClaimKey) -> None:
        claim = self.claims.pop(key, None)
        if claim is None:
            return
        name = object_fields.spec_of(claim).get("volumeName")
        index, index_key = (
            (self._by_volume, name) if name else (self._unbound, object_fields.storage_class_name_of(claim))
        )
        del index[index_key][key]
        if not index[index_key]:
            del index[index_key]

    def put_volume(self, volume: Object) -> bool:
        name = object_fields.name_of(volume)
        known = self.volumes.get(name)
        if known is not None and object_fields.is_older(volume, known):
            return False
        self.volumes[name] = volume
        self.available.put(volume)
        return True

    def drop_volume(self, name: str) -> None:
        self.volumes.pop(name, None)
        self.available.drop(name)

    def claims_naming(self, volume: str) -> Collection[ClaimKey]:
        """The claims that name a volume: normally one."""
        return self._by_volume.get(volume, {})

    def unbound_claims(self, storage_class: str) -> Collection[ClaimKey]:
        """The claims of a class that have no volume."""
        return self._unbound.get(storage_class, {})

    def storage_class_of(self, claim: Object) -> Object | None:
        return self.classes.get(object_fields.storage_class_name_of(claim))

    def default_class(self) -> str:
        """The default class: of several the newest, then the first by name; empty if there is none."""
        found = sorted(
            (each for each in self.classes.values() if object_fields.is_default(each)), key=object_fields.name_of
        )
        return (
            object_fields.name_of(max(found, key=lambda each: each["metadata"]["creationTimestamp"])) if found else ""
        )

    # -- writes ----------------------------------------------------------------------------------------------------

    def patch_and_store(self, resource: APIResource, obj: Object, body: Object, subresource: str = "") -> WriteSteps:
        """Patches the cached version of an object, and puts the result into the cache."""
        metadata = obj["metadata"]
        state = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {**body, "metadata": {**body.get("metadata", {}), **state}}
        key = metadata.get("namespace") or "", metadata["name"]
        response = yield Patch(resource, *key, body, how="merge", subresource=subresource)
        if not response.ok:
            return response.message
        # A late response does not restore a deleted object.
        is_volume = resource == PERSISTENT_VOLUMES
        known = self.volumes.get(metadata["name"]) if is_volume else self.claims.get(key)
        if known is not None and object_fields.uid_of(known) == metadata["uid"]:
            (self.put_volume if is_volume else self.put_claim)(response.body)
        return None

    def emit_event_once(
        self, resource: APIResource, obj: Object, type_: Literal["Normal", "Warning"], reason: str, message: str
    ) -> Generator[Effect, EffectResponse, None]:
        """Emits an Event, unless it equals the last one of the object."""
        uid = object_fields.uid_of(obj)
        if self._last_event.get(uid) == (reason, message):
            return
        self._last_event[uid] = (reason, message)
        metadata = obj["metadata"]
        key = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
        named = {"name": metadata["name"], "uid": uid, "resourceVersion": metadata.get("resourceVersion", "")}
        yield EmitEvent(
            {"apiVersion": "v1", "kind": _KINDS[resource], **key, **named}, type_, reason, message, COMPONENT
        )

    def forget_events(self, uid: str) -> None:
        """Forgets the last Event of a deleted object."""
        self._last_event.pop(uid, None)
