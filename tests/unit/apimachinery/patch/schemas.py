"""A small hand-written schema with one field per merge strategy, for the tests of strategic merge patch."""

from __future__ import annotations

from headgate.kube.schema import Field, Schemas, Type, TypeDef

TEXT = Type("string")


def merged_by_name(field: str, item: str) -> Field:
    return Field(field, Type("list", items=Type("struct", ref=item)), patch_strategy=("merge",), merge_key="name")


SCHEMAS = Schemas(
    (
        TypeDef(
            "x.Thing",
            (
                Field("metadata", Type("struct", ref="x.Meta")),
                Field("spec", Type("struct", ref="x.Spec")),
                Field("raw", Type("raw")),
            ),
        ),
        TypeDef(
            "x.Meta",
            (
                Field("name", TEXT),
                Field("labels", Type("map", items=TEXT)),
                Field("finalizers", Type("list", items=TEXT), patch_strategy=("merge",)),
            ),
        ),
        TypeDef(
            "x.Spec",
            (
                merged_by_name("containers", "x.Container"),
                merged_by_name("gates", "x.Gate"),
                Field("tolerations", Type("list", items=Type("struct", ref="x.Gate"))),
                Field("strategy", Type("struct", ref="x.Strategy"), patch_strategy=("retainKeys",)),
                Field("whole", Type("struct", ref="x.Strategy"), patch_strategy=("replace",)),
                Field("byName", Type("map", items=Type("struct", ref="x.Strategy"))),
                Field("matrix", Type("list", items=Type("list", items=TEXT)), patch_strategy=("merge",)),
            ),
        ),
        TypeDef("x.Gate", (Field("name", TEXT),)),
        TypeDef("x.Strategy", (Field("type", TEXT), Field("rolling", Type("struct", ref="x.Gate")))),
        TypeDef(
            "x.Container",
            (
                Field("name", TEXT),
                Field("image", TEXT),
                Field("args", Type("list", items=TEXT)),
                merged_by_name("env", "x.Gate"),
            ),
        ),
    ),
    {},
)
