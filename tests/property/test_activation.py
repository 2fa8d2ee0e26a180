"""Activation by labels against a slow reference: the two diagrams of the KEP, written as plain conditions.

Any sequence of labels, admissions, evictions, writes to ``spec.active``, new processes and switches of the feature gate
leaves every Workload in the state of the reference.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.quota.engine import QuotaSettings
from quota_engine import Api, Wire

NAMES = ("a", "b", "c")
ACTIVATE, DEACTIVATE = "kueue.x-k8s.io/activate", "kueue.x-k8s.io/deactivate"
MARK = "headgate.dev/deactivated-by-label"
VALUES = ("true", "1", "True", "false", "no", "")
Labels = tuple[str | None, str | None]


@dataclasses.dataclass
class Expected:
    """``state``: as the KEP names it, or Deactivated. ``labels``: those that are not consumed yet."""

    state: str = "Inactive"
    labels: Labels = (None, None)


class Reference:
    def __init__(self) -> None:
        self.is_on = True
        self.workloads = {name: Expected() for name in NAMES}

    def label(self, name: str, activate: str | None, deactivate: str | None) -> None:
        self.workloads[name].labels = activate, deactivate
        self._consume(self.workloads[name])

    def _consume(self, found: Expected) -> None:
        if not self.is_on:
            return
        activate, deactivate = (value in ("true", "True", "1") for value in found.labels)
        found.labels = None, None
        if deactivate:
            if found.state == "Inactive":
                found.state = "InactiveManual"
        elif activate and found.state == "InactiveManual":
            found.state = "Inactive"

    def admit(self) -> None:
        for found in self.workloads.values():
            if found.state == "Inactive":
                found.state = "Active"

    def evict(self, name: str) -> None:
        found = self.workloads[name]
        if found.state == "Active":
            found.state = "Inactive"

    def write_active(self, name: str, is_active: bool) -> None:
        found = self.workloads[name]
        if is_active:
            found.state = "Active" if found.state == "Active" else "Inactive"
        elif found.state in ("Active", "Inactive"):
            found.state = "Deactivated"  # one that is Active is evicted

    def switch(self) -> None:
        self.is_on = not self.is_on
        for found in self.workloads.values():
            if self.is_on:
                self._consume(found)
            elif found.state == "InactiveManual":
                found.state, found.labels = "Inactive", (None, "true")


def shown(wire: Wire) -> Expected:
    """The same from the object alone."""
    is_active, is_marked = wire["spec"].get("active", True), MARK in wire["metadata"].get("annotations", {})
    labels = wire["metadata"].get("labels", {})
    told = {each["type"]: each["status"] for each in wire["status"].get("conditions", [])}
    if told.get("Admitted") == "True":
        state = "Active"
    else:
        state = "Inactive" if is_active else "InactiveManual" if is_marked else "Deactivated"
    assert not (is_marked and is_active), "no mark without a deactivation"
    return Expected(state, (labels.get(ACTIVATE), labels.get(DEACTIVATE)))


class Subject:
    def __init__(self) -> None:
        self.api = Api(QuotaSettings(honours_activation=True))
        self.api.queue()
        for name in NAMES:
            self.api.submit(name, cpu=1)

    def label(self, name: str, activate: str | None, deactivate: str | None) -> None:
        def change(wire: Wire) -> None:
            labels = {**wire["metadata"].get("labels", {}), ACTIVATE: activate, DEACTIVATE: deactivate}
            wire["metadata"]["labels"] = {key: value for key, value in labels.items() if value is not None}

        self.api.change(name, change)

    def admit(self) -> None:
        self.api.cycle()

    def evict(self, name: str) -> None:
        """It is preempted, and its job has stopped."""
        wire = self.api.objects["workload", f"ns/{name}"]
        if not wire["status"].get("admission"):
            return

        def change(wire: Wire) -> None:
            self.api._condition(wire, "Evicted", True, "Preempted", "")

        self.api.change(name, change)
        self.api.gone(name)

    def write_active(self, name: str, is_active: bool) -> None:
        def change(wire: Wire) -> None:
            wire["spec"]["active"] = is_active

        self.api.change(name, change)
        if not is_active and self.api.objects["workload", f"ns/{name}"]["status"].get("admission"):
            self.api.gone(name)

    def switch(self) -> None:
        settings = QuotaSettings(honours_activation=not self.api.settings.honours_activation)
        self.api.settings = settings
        self.api.restart()

    def restart(self) -> None:
        self.api.restart()


_VALUE = st.one_of(st.none(), st.sampled_from(VALUES))
_NAME = st.sampled_from(NAMES)
_STEP = st.one_of(
    st.tuples(st.just("label"), _NAME, _VALUE, _VALUE),
    st.tuples(st.just("label"), _NAME, st.sampled_from([("true", None), (None, "true")])).map(
        lambda step: (step[0], step[1], *step[2])
    ),
    st.tuples(st.just("admit")),
    st.tuples(st.just("evict"), _NAME),
    st.tuples(st.just("write_active"), _NAME, st.booleans()),
    st.tuples(st.just("switch")),
    st.tuples(st.just("restart")),
)


@settings(max_examples=1000, deadline=None)
@given(st.lists(_STEP, max_size=25))
def test_every_sequence_of_events_leads_to_the_states_of_the_diagrams(steps: list[tuple[Any, ...]]) -> None:
    reference, subject = Reference(), Subject()
    for number, (what, *arguments) in enumerate(steps):
        getattr(subject, what)(*arguments)
        if what != "restart":
            getattr(reference, what)(*arguments)
        for name, expected in reference.workloads.items():
            found = shown(subject.api.objects["workload", f"ns/{name}"])
            assert (found.state, found.labels) == (expected.state, expected.labels), (number, what, name)
