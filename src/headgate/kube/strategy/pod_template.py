"""The strategy of PodTemplate, which is a template and nothing else; those that hold one are in ``workloads.py``."""

from __future__ import annotations

from typing import Final

from headgate.kube.pods.strategy import prepare_pod_template
from headgate.kube.pods.warnings import pod_template_warnings
from headgate.kube.strategy.adapt import update_with_features, with_features
from headgate.kube.strategy.contract import Context, Object, Strategy, UpdateRules
from headgate.kube.strategy.prepare import bump_generation, has_changed
from headgate.kube.validation.pod_template import validate_pod_template_create, validate_pod_template_update


def _prepare_pod_template_create(obj: Object, ctx: Context) -> None:
    obj["metadata"]["generation"] = 1
    prepare_pod_template(obj.get("template") or {}, None, ctx.features)


def _prepare_pod_template_update(new: Object, old: Object, ctx: Context) -> None:
    prepare_pod_template(new.get("template") or {}, old.get("template") or {}, ctx.features)
    if new.get("template") != old.get("template"):
        bump_generation(new, old)


def _pod_template_update_warnings(new: Object, old: Object, ctx: Context) -> list[str]:
    return pod_template_warnings(new.get("template") or {}, "template") if has_changed(new, old) else []


TEMPLATES: Final[dict[str, Strategy]] = {
    "PodTemplate": Strategy(
        prepare_create=_prepare_pod_template_create,
        validate_create=with_features(validate_pod_template_create),
        warnings_create=lambda obj, ctx: pod_template_warnings(obj.get("template") or {}, "template"),
        update=UpdateRules(
            prepare=_prepare_pod_template_update,
            validate=update_with_features(validate_pod_template_update),
            warnings=_pod_template_update_warnings,
        ),
    ),
}
