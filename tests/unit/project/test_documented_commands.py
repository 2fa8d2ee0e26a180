"""Every command that the pages tell people to type is in the table of rights, and no other."""

from __future__ import annotations

from documented_commands import documented_commands
from rights_cases import ADMINISTRATOR, CASES, NO_RIGHTS


def test_every_documented_command_is_run_with_the_shipped_rights_or_needs_none() -> None:
    documented = documented_commands()
    others = {each for each in documented if each.split()[1] not in ADMINISTRATOR}
    needs = {each for each in others if not each.removeprefix("headgate ").startswith(NO_RIGHTS)}
    new = {each: documented[each] for each in needs - CASES.keys()}
    assert not new, f"say in tests/rights_cases.py as which service account they are run: {new}"
    assert CASES.keys() <= needs, f"no page tells of these any more: {sorted(CASES.keys() - needs)}"


def test_commands_are_found_in_blocks_and_in_text() -> None:
    found = documented_commands()
    assert "docs/kueue.md" in found["headgate run --components quota,jobs"], "after an && in a block"
    assert "docs/queue-profiles.md" in found["headgate run --config volcano-scheduler.conf --scheduler-name volcano"]
    assert "README.md" in found["headgate gates lift NAME -l SELECTOR"], "between backticks"
    assert "headgate explain pod pod-3" in found, "with a prompt, and without the pipe"
