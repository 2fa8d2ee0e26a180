"""The mark of jobs and pods that ``headgate uninstall`` has given up: they may run without an admission.

``install/releasing.py`` sets the mark. A later installation does not stop a marked job or pod that runs, and removes
the mark from one that waits, or whose Workload is admitted: from then on it is managed as any other. The value is the
uid of the object, so that the mark of a copied manifest has no effect.
"""

from __future__ import annotations

from typing import Any, Final

from headgate.jobs.names import RELEASED
from headgate.kube.lenient_reader import get_path

Object = dict[str, Any]

RUNS_WITHOUT_ADMISSION: Final = "RunsWithoutAdmission"
"""The reason of the Event about a job or a pod that is not stopped though it has no admission."""
BY_UNINSTALL: Final = "`headgate uninstall` released it, so it runs without quota and is not stopped"
WITHOUT_WEBHOOK: Final = "no webhook was registered when it was created, so it runs without quota and is not stopped"


def is_released(obj: Object) -> bool:
    """Whether the object has the mark of an uninstallation."""
    mark = get_path(obj, ("metadata", "annotations", RELEASED))
    return mark is not None and bool(mark == obj["metadata"].get("uid"))


def release_mark(obj: Object) -> Object:
    """The annotation that marks this object."""
    return {RELEASED: obj["metadata"]["uid"]}
