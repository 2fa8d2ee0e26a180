"""The timeline of an object: entries with times and sources, in order, and what cannot be known."""

from __future__ import annotations

from typing import Any

from headgate.runtime.inspection.timeline import (
    HistoryEntry,
    event_entries,
    in_order,
    object_entries,
    seconds,
    unknown_of,
)

Wire = dict[str, Any]
STAMP = '{"uid":"u","queue":"eng","requests":{"cpu":"2"},"at":"2026-01-01T00:00:05.500000Z"}'
POD: Wire = {
    "kind": "Pod",
    "metadata": {
        "name": "p",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"headgate.dev/admitted": STAMP},
        "managedFields": [
            {
                "manager": "kubectl-create",
                "operation": "Update",
                "time": "2026-01-01T00:00:00Z",
                "fieldsV1": {"f:spec": {"f:containers": {}, "f:a": {}, "f:b": {}, "f:c": {}, "f:d": {}}},
            }
        ],
    },
    "spec": {"containers": []},
    "status": {
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:06Z"},
            {"type": "Ready", "status": "False", "reason": "x", "message": "y", "lastTransitionTime": None},
        ],
        "containerStatuses": [
            {
                "name": "c",
                "state": {
                    "terminated": {
                        "startedAt": "2026-01-01T00:00:07Z",
                        "finishedAt": "2026-01-01T00:00:09Z",
                        "exitCode": 3,
                        "reason": "Error",
                    }
                },
            }
        ],
    },
}


def test_an_object_tells_its_times_in_order() -> None:
    found = in_order(object_entries(POD))
    assert [(each.at[17:], each.source, each.text) for each in found] == [
        ("00Z", "metadata", "created"),
        (
            "00Z",
            "managedFields",
            "last write of kubectl-create (Update): spec.containers, spec.a, spec.b, spec.c, 1 more",
        ),
        ("05.500000Z", "stamp", "queue eng promised cpu 2, and the queue gate was removed"),
        ("06Z", "condition", "PodScheduled became True"),
        ("07Z", "status", "container c started"),
        ("09Z", "status", "container c ended with exit code 3 (Error)"),
    ]


def test_a_stamp_of_another_pod_does_not_count() -> None:
    other = {**POD, "metadata": {**POD["metadata"], "uid": "other"}}
    assert not any(each.source == "stamp" for each in object_entries(other))


def test_a_deletion_began_before_its_grace_period() -> None:
    metadata = {
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:01:30Z",
        "deletionGracePeriodSeconds": 30,
        "finalizers": ["example.com/x"],
    }
    (_, deletion) = in_order(object_entries({"metadata": metadata}))
    assert deletion.at == "2026-01-01T00:01:00Z"
    assert "it waits for the finalizers example.com/x" in deletion.text


def test_a_repeated_event_is_one_entry_at_its_last_time() -> None:
    event = {
        "reason": "FailedScheduling",
        "message": "no nodes",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:05:00Z",
        "count": 4,
        "source": {"component": "headgate"},
    }
    (entry,) = event_entries([event], "pod p")
    text = "FailedScheduling: no nodes (4 times since 2026-01-01T00:00:00Z)"
    assert entry == HistoryEntry("2026-01-01T00:05:00Z", "Event of headgate", text, "pod p")


def test_what_cannot_be_known_is_said() -> None:
    created_s = seconds("2026-01-01T00:00:00Z")
    assert created_s is not None
    soon, late = list(unknown_of(POD, created_s + 60)), list(unknown_of(POD, created_s + 7200))
    assert not any(each.startswith("Events before") for each in soon)
    assert late[0].startswith("Events before about 2026-01-01T01:00:00Z")
    assert any("managedFields" in each for each in soon)
    plain = {**POD, "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert any("scheduling gates" in each for each in unknown_of(plain, created_s))
