"""The status of a CronJob during a reconcile: active Jobs, last schedule time, last successful time."""

from __future__ import annotations

from typing import Any, Final

from headgate.controllers.ownership.pods import seconds
from headgate.kube.timestamps import format_time

Object = dict[str, Any]


class CronJobStatus:
    """Starts with the stored status; the result is written once, if it differs."""

    def __init__(self, cron: Object) -> None:
        self._stored: Final[Object] = cron.get("status") or {}
        self.active: list[Object] = list(self._stored.get("active") or ())
        self.last_schedule: str | None = self._stored.get("lastScheduleTime")
        self._last_success: str | None = self._stored.get("lastSuccessfulTime")

    def has(self, uid: str) -> bool:
        return any(each.get("uid") == uid for each in self.active)

    def has_name(self, name: str) -> bool:
        return any(each.get("name") == name for each in self.active)

    def remove_active(self, uid: str) -> None:
        self.active = [each for each in self.active if each.get("uid", "") != uid]

    def started(self, reference: Object, due_s: int) -> None:
        self.active = [*self.active, reference]
        self.last_schedule = format_time(due_s)

    def succeeded(self, at: str | None) -> None:
        """Records the completion time if it is the latest, also of a Job that was not in the active list."""
        at_s, last_s = seconds(at), seconds(self._last_success)
        if at_s is not None and (last_s is None or at_s > last_s):
            self._last_success = at

    @property
    def wire(self) -> Object:
        fields = {
            "active": self.active,
            "lastScheduleTime": self.last_schedule,
            "lastSuccessfulTime": self._last_success,
        }
        return {key: value for key, value in fields.items() if value}

    @property
    def has_changed(self) -> bool:
        return self.wire != self._stored
