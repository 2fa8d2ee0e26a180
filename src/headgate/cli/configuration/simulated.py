"""The engines of one variant of ``headgate simulate``: from its settings and its configuration file.

The configuration file is a scheduler configuration, or a Configuration of Headgate, of which the scheduler, the feature
gates and ``queues.gateAllPods`` are used. Fields that a simulation does not use are named.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from headgate.admission.settings import AdmissionSettings
from headgate.cli.configuration.files import SchedulerSource, kind_of, read_own
from headgate.cli.configuration.types import values_of
from headgate.cli.options.config_text import decode_text
from headgate.cli.options.input_files import read_input
from headgate.cli.wiring.plugins import InstalledPlugins
from headgate.cli.wiring.scheduler import default_configuration
from headgate.cli.wiring.simulation import SimulatedEngines
from headgate.kube.feature_gates import DEFAULTS, FeatureGates, contradiction, known_gate, with_gates
from headgate.scheduling.config.types import KubeSchedulerConfiguration
from headgate.simulate.job_objects import Queueing
from headgate.simulate.settings import DEFAULT_SCHEDULER, Settings
from headgate.simulate.simulation import OUTSIDE_QUEUES, SimulationInput
from headgate.simulate.snapshot import Snapshot

_KUEUE_SCHEDULER: Final = "default-scheduler"
_USED: Final = frozenset(
    {"featureGates", "scheduler.names", "scheduler.configuration", "scheduler.configurationFile", "queues.gateAllPods"}
)


class VariantInput(msgspec.Struct, frozen=True):
    """``remarks``: fields of the configuration file that have no effect."""

    given: SimulationInput
    remarks: tuple[str, ...] = ()


def make_input(
    settings: Settings,
    snapshot: Snapshot,
    queueing: Queueing,
    plugins: InstalledPlugins,
    folder: Path,
    end_s: float | None,
) -> VariantInput | str:
    """``folder``: where the path of a configuration file begins. A returned string is an error."""
    name, remarks = settings.scheduler_name, tuple[str, ...]()
    gates = snapshot.recorded_from_s is None if settings.gates is None else settings.gates
    name = name or (DEFAULT_SCHEDULER if queueing == "volcano" else _KUEUE_SCHEDULER)
    configuration: KubeSchedulerConfiguration = default_configuration((name,), plugins)
    given_gates = dict(settings.feature_gates)
    if settings.configuration_file:
        read = _read_file(folder / settings.configuration_file, name, plugins)
        if isinstance(read, str):
            return read
        configuration, file_gates, gate_all, remarks = read
        given_gates = {**file_gates, **given_gates}
        gates = gates if gate_all is None else gate_all
    features = _features(given_gates)
    if isinstance(features, str):
        return features
    names = [profile.name for profile in configuration.profiles]
    if name not in names:
        return f"the configuration has no profile {name!r} (settings.schedulerName); it has {', '.join(names)}"
    if OUTSIDE_QUEUES not in names:
        added = default_configuration((OUTSIDE_QUEUES,), plugins).profiles
        configuration = replace(configuration, profiles=(*configuration.profiles, *added))
    engines = SimulatedEngines(configuration, plugins, features)
    problem = engines.find_problem()
    if problem:
        return problem
    admission = AdmissionSettings(
        frozenset(names),
        gates_all_pods=gates and queueing == "volcano",
        queue_gate_enabled=features.queue_allocation_gate,
        suspends_jobs=queueing == "kueue",
        features=features,
    )
    return VariantInput(SimulationInput(snapshot, settings, admission, engines, name, queueing, end_s), remarks)


def _features(gates: dict[str, bool]) -> FeatureGates | str:
    unknown = [name for name in gates if known_gate(name) is None]
    if unknown:
        return f"unrecognized feature gate: {', '.join(unknown)}"
    features = with_gates(gates, DEFAULTS)
    return features if isinstance(features, str) else contradiction(features) or features


def _read_file(
    file: Path, name: str, plugins: InstalledPlugins
) -> tuple[KubeSchedulerConfiguration, dict[str, bool], bool | None, tuple[str, ...]] | str:
    text = read_input(file)
    if isinstance(text, str):
        return text
    source, gates, gate_all, remarks = SchedulerSource(file), dict[str, bool](), None, tuple[str, ...]()
    if kind_of(decode_text(text)) == "headgate":
        read = read_own(text, file, plugins)
        if isinstance(read, list):
            return "\n".join(each.at(file) for each in read)
        gates, gate_all = dict(read.feature_gates or {}), read.queues.gate_all_pods
        remarks = tuple(f"{file.name}: {path} has no effect" for path in values_of(read) if path not in _USED)
        if read.scheduler.configuration_file:
            source = SchedulerSource(file.parent / read.scheduler.configuration_file)
        elif read.scheduler.configuration is not None:
            source = SchedulerSource(file, read.scheduler.configuration)
        else:
            names = read.scheduler.names or (name,)
            return default_configuration(names, plugins), gates, gate_all, remarks
    configuration = source.read(plugins, (name,))
    if isinstance(configuration, list):
        return "\n".join(configuration)
    return configuration, gates, gate_all, remarks
