"""Tables that grow and shrink at run time, and the order of versions and groups."""

from __future__ import annotations

from headgate.apiserver.kinds.builtin import BUILTIN
from headgate.apiserver.kinds.kind import EVERY_VERB, ServedKind
from headgate.apiserver.kinds.table import version_order
from headgate.kube.schema import GroupVersionKind


def a_custom_kind(group: str = "example.com", version: str = "v1", plural: str = "widgets") -> ServedKind:
    return ServedKind(
        group=group,
        version=version,
        kind="Widget",
        plural=plural,
        singular="widget",
        namespaced=True,
        verbs=EVERY_VERB,
        type_name="com.example.v1.Widget",
        stored_as=(group, plural),
        stored_version="v1",
    )


def test_adding_kinds_gives_a_new_table_and_leaves_the_old_one() -> None:
    widget = a_custom_kind()
    grown = BUILTIN.with_replaced((), [widget])
    assert grown.by_resource("example.com", "v1", "widgets") is widget
    assert grown.by_gvk(GroupVersionKind("example.com", "v1", "Widget")) is widget
    assert "widgets.example.com" in grown.stored_resources()
    assert BUILTIN.by_resource("example.com", "v1", "widgets") is None


def test_groups_that_are_not_built_in_come_last_by_name() -> None:
    grown = BUILTIN.with_replaced((), [a_custom_kind("z.example.com"), a_custom_kind("a.example.com")])
    assert [group.name for group in grown.groups()][-2:] == ["a.example.com", "z.example.com"]


def test_taking_a_group_away_leaves_no_trace() -> None:
    grown = BUILTIN.with_replaced((), [a_custom_kind()])
    shrunk = grown.with_replaced([a_custom_kind()], ())
    assert shrunk.group("example.com") is None
    assert shrunk.kinds_stored_as("widgets.example.com") == ()
    assert shrunk.kinds() == BUILTIN.kinds()


def test_a_later_row_for_the_same_resource_wins() -> None:
    widget = a_custom_kind()
    gadget = ServedKind(
        **{field: getattr(widget, field) for field in widget.__struct_fields__ if field != "kind"}, kind="Gadget"
    )
    table = BUILTIN.with_replaced((), [widget]).with_replaced([widget], [gadget])
    assert table.by_resource("example.com", "v1", "widgets") is gadget
    assert table.by_gvk(widget.gvk) is None


def test_stable_versions_are_preferred_then_beta_then_alpha_then_names() -> None:
    wanted = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    assert sorted(sorted(wanted), key=version_order) == wanted


def test_the_preferred_version_of_autoscaling_is_v2() -> None:
    group = BUILTIN.group("autoscaling")
    assert group is not None
    assert group.preferred_version == "v2"
