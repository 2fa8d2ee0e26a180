"""The RBAC authorizer: roles and bindings of the cluster, indexed by subject.

An :class:`RBACAuthorizer` follows the committed state of the four RBAC resources: it reads from the store what changed
since the last request, and decodes only that. The *effective rules* of a user in a namespace are the rules of every
binding that names the user or one of the user's groups. They are cached until a role or binding changes.

A binding whose role is absent grants nothing; the refusal reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from headgate.apimachinery.api_errors import AuthorizationAttributes
from headgate.apiserver.authn.user import UserInfo, account_name
from headgate.apiserver.authz.rules import PolicyRule, allows, stored_rules
from headgate.kube.field_errors import quote
from headgate.store import Item, Revision, Store, StoreChange
from headgate.store.item import Compacted, key_of

Object = dict[str, Any]

_GROUP: Final = "rbac.authorization.k8s.io"
ROLES: Final = f"roles.{_GROUP}"
CLUSTER_ROLES: Final = f"clusterroles.{_GROUP}"
BINDINGS: Final = f"rolebindings.{_GROUP}"
CLUSTER_BINDINGS: Final = f"clusterrolebindings.{_GROUP}"
_RESOURCES: Final = (CLUSTER_ROLES, ROLES, CLUSTER_BINDINGS, BINDINGS)
_SINGULAR: Final = {ROLES: f"role.{_GROUP}", CLUSTER_ROLES: f"clusterrole.{_GROUP}"}
_MAX_CACHED_USERS: Final = 2048
_MAX_CACHED_ENDPOINTS: Final = 2048  # per user

_decoder: Final = msgspec.json.Decoder()


class RoleBinding(msgspec.Struct, frozen=True):
    """A RoleBinding, or a ClusterRoleBinding, whose ``namespace`` is empty.

    ``subjects``: for each subject, the key for lookups (``User x``, ``Group x``) and its text in reasons.
    """

    namespace: str
    name: str
    role_kind: str
    role_name: str
    subjects: tuple[tuple[str, str], ...]

    @property
    def role_key(self) -> tuple[str, str]:
        """Resource and key of the role."""
        if self.role_kind == "ClusterRole":
            return CLUSTER_ROLES, key_of("", self.role_name)
        return ROLES, key_of(self.namespace, self.role_name)

    def reason(self, subject: str) -> str:
        kind, name = (
            ("RoleBinding", f"{self.name}/{self.namespace}")
            if self.namespace
            else (
                "ClusterRoleBinding",
                self.name,
            )
        )
        return f"RBAC: allowed by {kind} {quote(name)} of {self.role_kind} {quote(self.role_name)} to {subject}"


class AuthorizationDecision(msgspec.Struct, frozen=True):
    """``granted``: the binding that allows the request, and the text of its subject. ``problem``: why bindings of the
    user could not be evaluated."""

    allowed: bool
    granted: tuple[RoleBinding, str] | None = None
    problem: str = ""

    @property
    def reason(self) -> str:
        """The text of the decision."""
        if self.granted is not None:
            binding, subject = self.granted
            return binding.reason(subject)
        return f"RBAC: {self.problem}" if self.problem else ""


# A rule, the binding that grants it to the user, and the text of the subject of that binding.
BoundRule = tuple[PolicyRule, RoleBinding, str]


class EffectiveRules:
    """The rules of one user in one namespace or, for an empty namespace, in the whole cluster.

    ``absent_roles``: the resource and name of roles that do not exist, although bindings of the user name them.
    """

    __slots__ = ("_found", "absent_roles", "rules")

    def __init__(self, rules: Sequence[BoundRule], absent_roles: tuple[tuple[str, str], ...]) -> None:
        self.rules: Final = rules
        self.absent_roles: Final = absent_roles
        self._found: Final[dict[tuple[str, ...], list[BoundRule]]] = {}

    def decide(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        for rule, binding, subject in self._matching(attributes):
            if not rule.names or attributes.name in rule.names:
                return AuthorizationDecision(True, (binding, subject))
        return AuthorizationDecision(False, None, self.problem) if self.absent_roles else _DENIED

    @property
    def problem(self) -> str:
        """The problem with the bindings; empty if there is none."""
        return aggregate([f"{_SINGULAR[resource]} {quote(name)} not found" for resource, name in self.absent_roles])

    def _matching(self, attributes: AuthorizationAttributes) -> list[BoundRule]:
        """The rules that match the request if its object name is ignored. The result is cached, because most requests
        of a user differ only in names."""
        if attributes.path is not None:
            return [each for each in self.rules if allows(each[0], attributes)]
        key = (attributes.verb, attributes.group, attributes.resource, attributes.subresource)
        found = self._found.get(key)
        if found is None:
            found = [each for each in self.rules if allows(_nameless(each[0]), attributes)]
            if len(self._found) < _MAX_CACHED_ENDPOINTS:
                self._found[key] = found
        return found


def _nameless(rule: PolicyRule) -> PolicyRule:
    return msgspec.structs.replace(rule, names=()) if rule.names else rule


def aggregate(problems: Sequence[str]) -> str:
    """Several errors as one text."""
    distinct = list(dict.fromkeys(problems))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


class RBACAuthorizer:
    def __init__(self, store: Store) -> None:
        self._store: Final = store
        self._seen: Revision | None = None
        self._roles: Final[dict[tuple[str, str], tuple[PolicyRule, ...]]] = {}
        self._bindings: Final[dict[tuple[str, str], RoleBinding]] = {}
        self._by_subject: Final[dict[tuple[str, str], dict[str, RoleBinding]]] = {}  # (namespace, subject) -> by name
        self._effective_rules: Final[dict[tuple[str, tuple[str, ...], str], EffectiveRules]] = {}

    def decide(self, user: UserInfo, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Whether ``user`` may do what ``attributes`` describe. ``attributes.user`` is only used in texts."""
        if user.is_in_system_masters:
            return _MASTER
        return self.effective_rules(user, attributes.namespace).decide(attributes)

    def effective_rules(self, user: UserInfo, namespace: str) -> EffectiveRules:
        self.catch_up()
        key = (user.name, user.groups, namespace)
        found = self._effective_rules.get(key)
        if found is None:
            if len(self._effective_rules) >= _MAX_CACHED_USERS:
                self._effective_rules.clear()
            found = self._effective_rules[key] = self._collect_rules(user, namespace)
        return found

    def rules(self, binding: RoleBinding) -> tuple[PolicyRule, ...] | None:
        """The rules of the role that a binding names; ``None`` if there is no such role."""
        self.catch_up()
        return self._roles.get(binding.role_key)

    def _collect_rules(self, user: UserInfo, namespace: str) -> EffectiveRules:
        rules: list[BoundRule] = []
        absent: list[tuple[str, str]] = []
        for binding, subject in self._bindings_of(user, namespace):
            granted = self._roles.get(binding.role_key)
            if granted is None:
                absent.append((binding.role_key[0], binding.role_name))
            else:
                rules.extend((rule, binding, subject) for rule in granted)
        return EffectiveRules(rules, tuple(absent))

    def _bindings_of(self, user: UserInfo, namespace: str) -> Iterator[tuple[RoleBinding, str]]:
        """The user's bindings, each with its first matching subject; ClusterRoleBindings first."""
        keys = {f"User {user.name}", *(f"Group {group}" for group in user.groups)}
        for scope in ("", namespace) if namespace else ("",):
            found = {name: each for key in keys for name, each in self._by_subject.get((scope, key), _NONE).items()}
            for name in sorted(found):
                binding = found[name]
                yield binding, next(shown for key, shown in binding.subjects if key in keys)

    # -- updates from the store ------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Applies the changes of roles and bindings that were committed since the last call."""
        committed = self._store.committed
        if self._seen == committed:
            return
        for resource in _RESOURCES:
            changes = None if self._seen is None else self._store.changes(resource, self._seen)
            if changes is None or isinstance(changes, Compacted):
                self._rebuild()
                break
            for change in changes:
                self._apply(change)
        self._seen = committed

    def _rebuild(self) -> None:
        for table in (self._roles, self._bindings, self._by_subject, self._effective_rules):
            table.clear()
        for resource in _RESOURCES:
            page = self._store.page(resource, None)
            for item in () if isinstance(page, Compacted) else page.items:
                self._put(item)

    def _apply(self, change: StoreChange) -> None:
        self._effective_rules.clear()
        self._drop(change.item)
        if not change.deleted:
            self._put(change.item)

    def _drop(self, item: Item) -> None:
        item_key = (item.resource, key_of(item.namespace, item.name))
        self._roles.pop(item_key, None)
        binding = self._bindings.pop(item_key, None)
        for key, _ in binding.subjects if binding is not None else ():
            bindings = self._by_subject.get((item.namespace, key), {})
            bindings.pop(item.name, None)
            if not bindings:
                self._by_subject.pop((item.namespace, key), None)

    def _put(self, item: Item) -> None:
        item_key = (item.resource, key_of(item.namespace, item.name))
        if item.resource in (ROLES, CLUSTER_ROLES):
            self._roles[item_key] = stored_rules(item.data)
            return
        binding = self._bindings[item_key] = binding_of(_decoder.decode(item.data))
        for key, _ in binding.subjects:
            self._by_subject.setdefault((item.namespace, key), {})[item.name] = binding


_MASTER: Final = AuthorizationDecision(True)
_DENIED: Final = AuthorizationDecision(False)
_NONE: Final[dict[str, RoleBinding]] = {}


def binding_of(obj: Object) -> RoleBinding:
    """Reads a RoleBinding or ClusterRoleBinding."""
    metadata, ref = obj["metadata"], obj.get("roleRef") or {}
    namespace = metadata.get("namespace", "")
    subjects = (_subject(each, namespace) for each in obj.get("subjects") or () if each)
    return RoleBinding(
        namespace,
        metadata.get("name", ""),
        ref.get("kind", ""),
        ref.get("name", ""),
        tuple(each for each in subjects if each is not None),
    )


def _subject(subject: Object, namespace: str) -> tuple[str, str] | None:
    """The lookup key of the subject, and its text for reasons."""
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind in ("User", "Group"):
        return f"{kind} {name}", f"{kind} {quote(name)}"
    account_namespace = subject.get("namespace") or namespace
    if kind != "ServiceAccount" or not account_namespace:
        return None
    return f"User {account_name(account_namespace, name)}", f"{kind} {quote(f'{name}/{account_namespace}')}"
