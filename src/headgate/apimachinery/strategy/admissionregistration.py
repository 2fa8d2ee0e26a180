"""Strategies of ``admissionregistration.k8s.io``: webhook configurations and admission policies."""

from __future__ import annotations

from typing import Final

from headgate.apimachinery.strategy.cel_warnings import policy_binding_warnings, policy_warnings
from headgate.apimachinery.strategy.contract import (
    Strategy,
    UpdateRules,
    validate_create_without_context,
)
from headgate.apimachinery.strategy.prepare import (
    SPEC_AND_METADATA,
    STATUS,
    bump_generation_on_change,
    drop_status_start_generation,
    keep_spec_and_metadata,
    keep_status_bump_generation,
    start_generation,
)
from headgate.apimachinery.validation.admission_policy import (
    validate_admission_policy,
    validate_admission_policy_binding,
    validate_admission_policy_status,
)
from headgate.apimachinery.validation.webhooks import validate_webhook_configuration

_WEBHOOKS: Final = Strategy(
    namespaced=False,
    prepare_create=start_generation,
    validate_create=validate_create_without_context(validate_webhook_configuration),
    update=UpdateRules(
        prepare=bump_generation_on_change("webhooks"),
        validate=lambda new, old, ctx: validate_webhook_configuration(new, old),
    ),
    unconditional_update=False,
)

ADMISSION: Final[dict[str, Strategy]] = {
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": Strategy(
        namespaced=False,
        prepare_create=drop_status_start_generation,
        validate_create=validate_create_without_context(validate_admission_policy),
        warnings_create=lambda obj, ctx: policy_warnings(obj, None),
        update=UpdateRules(
            prepare=keep_status_bump_generation,
            validate=lambda new, old, ctx: validate_admission_policy(new),
            warnings=lambda new, old, ctx: policy_warnings(new, old),
            reset_fields=STATUS,
        ),
        subresources={
            "status": UpdateRules(
                prepare=keep_spec_and_metadata,
                validate=lambda new, old, ctx: validate_admission_policy_status(new),
                reset_fields=SPEC_AND_METADATA,
            )
        },
        unconditional_update=False,
    ),
    "ValidatingAdmissionPolicyBinding": Strategy(
        namespaced=False,
        prepare_create=start_generation,
        validate_create=validate_create_without_context(validate_admission_policy_binding),
        warnings_create=lambda obj, ctx: policy_binding_warnings(obj, None),
        update=UpdateRules(
            prepare=bump_generation_on_change("spec"),
            validate=lambda new, old, ctx: validate_admission_policy_binding(new),
            warnings=lambda new, old, ctx: policy_binding_warnings(new, old),
        ),
        unconditional_update=False,
    ),
}
