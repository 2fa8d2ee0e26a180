"""Every HTTP method on every form of path, as users with and without rights: both servers answer with the same status
and leave the same objects.

The authorizer, the audit log and the handlers must mean the same thing by a request. Where they do not, a request that
is allowed as one thing is executed as another; such a request shows here as a status code or as a changed object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness.compare import Difference
from harness.embedded_server import EmbeddedServer
from harness.real_server import RealServer
from harness.server import Server
from harness.server_pair import ServerPair, report_path
from harness.users import ALICE, EDITOR, TOKEN, VIEWER, bearing
from real.allowed_differences import ALLOWED
from real.custom_kinds import establish
from real.request_matrix import DEFINITIONS, KEPT, METHODS, OTHERS, QUIET, Form, Matrix, State, forms_of

pytestmark = pytest.mark.real

# From the least to the most powerful: what one may not do the next one finds as it was.
USERS = {
    "anonymous": {},
    "no rights": bearing(ALICE),
    "view": bearing(VIEWER),
    "edit": bearing(EDITOR),
    "admin": bearing(TOKEN),
}


@dataclass
class Pair:
    both: ServerPair
    matrices: dict[str, Matrix]
    base: State

    def on_each(self, work: Any) -> tuple[Any, Any]:
        return self.both.on_each(lambda server: work(self.matrices[server.name]))


@pytest.fixture(scope="module")
def pair(kube_binaries: Path, tmp_path_factory: pytest.TempPathFactory, met_allowances: Counter[str]) -> Iterator[Pair]:
    """Servers of their own: some requests delete every object of a kind, in all namespaces."""
    real = RealServer(tmp_path_factory.mktemp("real"), kube_binaries)
    ours = EmbeddedServer(tmp_path_factory.mktemp("ours"), kube_binaries / "kubectl")
    both = ServerPair(real, ours, ALLOWED, report_path(), met_allowances)
    matrices = {server.name: Matrix(server) for server in (real, ours)}

    def prepare(server: Server) -> State:
        establish(server, *DEFINITIONS)
        matrix = matrices[server.name]
        matrix.prepare()
        matrix.restore({})
        return matrix.state()

    base, same = both.on_each(prepare)
    assert base == same
    yield Pair(both, matrices, base)
    for matrix in matrices.values():
        matrix.close()
    both.close()
    real.stop()
    ours.stop()


def _compare(pair: Pair, case: str, forms: list[Form], watched: str = "objects") -> None:
    found: list[Difference] = []

    def note(step: str, what: str, answers: tuple[Any, Any]) -> None:
        if answers[0] != answers[1]:
            found.append(Difference(case, step, (what,), *answers))

    def state(matrix: Matrix) -> State:
        return matrix.namespaces() if watched == "namespaces" else matrix.state()

    def restore(matrix: Matrix) -> State:
        if watched == "namespaces":
            matrix.restore_namespaces()
        else:
            matrix.restore(pair.base)
        return state(matrix)

    base, unchanged = pair.on_each(state)[0], pair.on_each(Matrix.revision)

    def look(step: str) -> None:
        nonlocal unchanged
        if (now := pair.on_each(Matrix.revision)) == unchanged:
            return  # no server has written anything
        unchanged = now
        left = pair.on_each(state)
        for place in left[0].keys() | left[1].keys():
            note(step, place, tuple(each.get(place) for each in left))
        if left != (base, base):
            restored = pair.on_each(restore)
            assert restored == (base, base), (step, restored)
            unchanged = pair.on_each(Matrix.revision)

    for form in forms:
        for method in METHODS:
            for user, headers in USERS.items():
                step = f"{method} {form.path} as {user}"
                answers = pair.on_each(partial(Matrix.status, form=form, method=method, headers=headers))
                note(step, "status", answers)
                if method not in QUIET and min(answers) < 300:
                    look(step)
            if method not in QUIET or method == "BREW":
                look(f"{method} {form.path}")
    pair.both.judge(found)


def test_a_write_of_any_kind_changes_the_revision_of_a_server(pair: Pair) -> None:
    for resource in KEPT:
        before = pair.on_each(Matrix.revision)
        pair.on_each(partial(Matrix.touch, resource=resource))
        assert all(new != old for new, old in zip(pair.on_each(Matrix.revision), before, strict=True)), resource
        pair.on_each(partial(Matrix.restore, base=pair.base))


@pytest.mark.parametrize("resource", KEPT, ids=lambda each: each.plural)
def test_every_method_on_every_path_of_a_resource_does_the_same_on_both_servers(pair: Pair, resource: Any) -> None:
    _compare(pair, f"every method on every path of {resource.plural}", forms_of(resource))


@pytest.mark.parametrize("name", OTHERS)
def test_every_method_on_other_paths_does_the_same_on_both_servers(pair: Pair, name: str) -> None:
    _compare(pair, f"every method on {name}", OTHERS[name], "namespaces" if name == "namespaces" else "objects")
