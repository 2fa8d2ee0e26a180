"""Writes the states and transitions of a pod in the scheduler to ARCHITECTURE.md, between its two markers.

    python tools/pod_lifecycle.py

The source is the table in ``src/headgate/scheduling/pod_lifecycle.py``. A unit test compares the page with the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headgate.scheduling.pod_lifecycle import (
    IN_FLIGHT,
    MEANINGS,
    QUEUED,
    TRANSITIONS,
    Guard,
    PodState,
    Transition,
)

PAGE = Path(__file__).parent.parent / "ARCHITECTURE.md"
BEGIN = "<!-- pod lifecycle: written by tools/pod_lifecycle.py -->"
END = "<!-- /pod lifecycle -->"


def rendered() -> str:
    return "\n".join([*_states(), "", *_diagram(), "", *_transitions()])


def _states() -> Iterator[str]:
    yield "| state | meaning |"
    yield "|---|---|"
    for state in PodState:
        yield f"| {state} | {MEANINGS[state]} |"


def _diagram() -> Iterator[str]:
    """States in flight are drawn as one group; transitions that leave all of them are drawn from the group."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield '    state "in flight" as in_flight {'
    for line in _arrows(inside=True):
        yield f"    {line}"
    yield "    }"
    yield from _arrows(inside=False)
    yield "```"


def _arrows(*, inside: bool) -> Iterator[str]:
    labels: dict[tuple[str, str], list[str]] = {}
    for row in TRANSITIONS:
        group = len(row.sources & IN_FLIGHT) > len(IN_FLIGHT) // 2 and row.target not in IN_FLIGHT
        sources = {"in_flight"} if group else {_node(each) for each in row.sources}
        is_inside = row.target in IN_FLIGHT and row.sources <= IN_FLIGHT
        if is_inside is inside:
            for source in sorted(sources):
                labels.setdefault((source, _node(row.target)), []).append(row.event.name.lower())
    for (source, target), events in labels.items():
        yield f"    {source} --> {target}: {', '.join(dict.fromkeys(events))}"


def _node(state: PodState | None) -> str:
    return "[*]" if state is None else state.name.lower()


def _transitions() -> Iterator[str]:
    yield "| state | event | if | next state | effects |"
    yield "|---|---|---|---|---|"
    for row in TRANSITIONS:
        guard = "" if row.guard is Guard.ALWAYS else f"{row.guard}"
        effects = ", ".join(f"`{each.__name__}`" for each in row.effects)
        yield f"| {_sources(row)} | {row.event.name.lower()}: {row.event} | {guard} | {row.target or '–'} | {effects} |"


def _sources(row: Transition) -> str:
    for states, name in ((QUEUED, "any in the queue"), (IN_FLIGHT, "any in flight")):
        missing = states - row.sources
        if row.sources <= states and len(missing) < 2:
            return name if not missing else f"{name}, except {next(iter(missing))}"
    return ", ".join(each for each in PodState if each in row.sources) or "–"


def main() -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{rendered()}\n{END}{after}")


if __name__ == "__main__":
    main()
