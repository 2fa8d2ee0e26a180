"""The users that both servers know by token: an administrator and users without rights.

`alice` and `bob` are plain users, `bob` in two groups; tests grant them what they need, in a namespace of their own.
`viewer` and `editor` are for tests that bind them to the ClusterRoles `view` and `edit`.
"""

from __future__ import annotations

TOKEN = "comparison-suite-admin"
ALICE = "comparison-suite-alice"
BOB = "comparison-suite-bob"
VIEWER = "comparison-suite-viewer"
EDITOR = "comparison-suite-editor"
TOKENS = f"""\
{TOKEN},admin,admin,"system:masters"
{ALICE},alice,1001
{BOB},bob,1002,"readers,writers"
{VIEWER},viewer,1003
{EDITOR},editor,1004
"""


def bearing(token: str) -> dict[str, str]:
    """Headers for a step of a case."""
    return {"Authorization": f"Bearer {token}"}
