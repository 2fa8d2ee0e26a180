"""All claims, volumes and classes there are, found by each other's names. Own writes count as seen at once.

What is older than what is known is not taken in: a watch may be late. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Final, Literal

from headgate.kube.resource import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Resource
from headgate.owners.effects import Answer, Effect, Emit, Patch
from headgate.owners.volumes import facts
from headgate.owners.volumes.facts import ClaimKey, Object
from headgate.owners.volumes.free import FreeVolumes

Step = Generator[Effect, Answer, str | None]
"""Steps that end with what went wrong, if anything did."""

COMPONENT: Final = "persistentvolume-controller"
_KINDS: Final = {PERSISTENT_VOLUME_CLAIMS: "PersistentVolumeClaim", PERSISTENT_VOLUMES: "PersistentVolume"}


class Shelf:
    def __init__(self) -> None:
        self.claims: Final[dict[ClaimKey, Object]] = {}
        self.volumes: Final[dict[str, Object]] = {}
        self.classes: Final[dict[str, Object]] = {}
        self.free: Final = FreeVolumes()
        self._naming: Final[dict[str, dict[ClaimKey, None]]] = {}
        self._waiting: Final[dict[str, dict[ClaimKey, None]]] = {}
        self._said: Final[dict[str, tuple[str, str]]] = {}

    # -- what there is ---------------------------------------------------------------------------------------------

    def put_claim(self, claim: Object) -> bool:
        """False: that is older than what is known."""
        key = facts.key_of(claim)
        known = self.claims.get(key)
        if known is not None and facts.is_older(claim, known):
            return False
        self.drop_claim(key)
        self.claims[key] = claim
        name = facts.spec_of(claim).get("volumeName")
        if name:
            self._naming.setdefault(name, {})[key] = None
        else:
            self._waiting.setdefault(facts.class_of(claim), {})[key] = None
        return True

    def drop_claim(self, key: ClaimKey) -> None:
        claim = self.claims.pop(key, None)
        if claim is None:
            return
        name = facts.spec_of(claim).get("volumeName")
        index, place = (self._naming, name) if name else (self._waiting, facts.class_of(claim))
        del index[place][key]
        if not index[place]:
            del index[place]

    def put_volume(self, volume: Object) -> bool:
        name = facts.name_of(volume)
        known = self.volumes.get(name)
        if known is not None and facts.is_older(volume, known):
            return False
        self.volumes[name] = volume
        self.free.put(volume)
        return True

    def drop_volume(self, name: str) -> None:
        self.volumes.pop(name, None)
        self.free.drop(name)

    def naming(self, volume: str) -> Collection[ClaimKey]:
        """The claims that name a volume: one, unless somebody made a mistake."""
        return self._naming.get(volume, {})

    def waiting(self, storage_class: str) -> Collection[ClaimKey]:
        """The claims of a class that have no volume."""
        return self._waiting.get(storage_class, {})

    def class_of(self, claim: Object) -> Object | None:
        return self.classes.get(facts.class_of(claim))

    def default_class(self) -> str:
        """Of several the newest, then the first by name; empty if there is none."""
        found = sorted((each for each in self.classes.values() if facts.is_default(each)), key=facts.name_of)
        return facts.name_of(max(found, key=lambda each: each["metadata"]["creationTimestamp"])) if found else ""

    # -- what is done to it ----------------------------------------------------------------------------------------

    def write(self, resource: Resource, obj: Object, body: Object, subresource: str = "") -> Step:
        """A merge patch of an object as it is known; what became of it is on the shelf."""
        metadata = obj["metadata"]
        state = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        body = {**body, "metadata": {**body.get("metadata", {}), **state}}
        place = metadata.get("namespace") or "", metadata["name"]
        answer = yield Patch(resource, *place, body, how="merge", subresource=subresource)
        if not answer.ok:
            return answer.message
        # Who is gone stays gone, however late an answer comes.
        is_volume = resource == PERSISTENT_VOLUMES
        known = self.volumes.get(metadata["name"]) if is_volume else self.claims.get(place)
        if known is not None and facts.uid_of(known) == metadata["uid"]:
            (self.put_volume if is_volume else self.put_claim)(answer.body)
        return None

    def say(
        self, resource: Resource, obj: Object, type_: Literal["Normal", "Warning"], reason: str, message: str
    ) -> Generator[Effect, Answer, None]:
        """An Event, unless it is what was last said of the object."""
        uid = facts.uid_of(obj)
        if self._said.get(uid) == (reason, message):
            return
        self._said[uid] = (reason, message)
        metadata = obj["metadata"]
        place = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
        named = {"name": metadata["name"], "uid": uid, "resourceVersion": metadata.get("resourceVersion", "")}
        yield Emit({"apiVersion": "v1", "kind": _KINDS[resource], **place, **named}, type_, reason, message, COMPONENT)

    def forget(self, uid: str) -> None:
        """Nothing more will be said of it."""
        self._said.pop(uid, None)
