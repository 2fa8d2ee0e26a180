"""A world with the StatefulSet controller, and the paths of its objects."""

from __future__ import annotations

from headgate.controllers.stateful_sets.controller import StatefulSetController
from unit.controllers import workload_fixtures
from unit.controllers.world import World

SETS = "/apis/apps/v1/namespaces/a/statefulsets"
CLAIMS = "/api/v1/namespaces/a/persistentvolumeclaims"
LABELS = {"app": "db"}


def a_world() -> World:
    return workload_fixtures.a_world(StatefulSetController)
