"""The certificates in the Secret of the webhooks."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import msgspec
from cryptography import x509

from headgate.runtime.webhooks.certificates import WebhookCertificates, ensure_certificates
from headgate.runtime.webhooks.target import WebhookTarget

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TARGET = WebhookTarget(url="https://hooks.example.com:8443")


def after(days: int) -> datetime.datetime:
    return NOW + datetime.timedelta(days=days)


def authorities(certificates: WebhookCertificates) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(certificates.bundle)


def is_trusted(certificates: WebhookCertificates) -> bool:
    """Whether what is shown was signed by the first authority of the bundle."""
    x509.load_pem_x509_certificate(certificates.server.certificate).verify_directly_issued_by(
        authorities(certificates)[0]
    )
    return True


def test_at_first_everything_is_made() -> None:
    certificates = ensure_certificates({}, TARGET, NOW)
    assert is_trusted(certificates)
    names = x509.load_pem_x509_certificate(certificates.server.certificate).extensions
    found = names.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "hooks.example.com" in found.get_values_for_type(x509.DNSName)


def test_what_serves_is_kept_byte_for_byte() -> None:
    certificates = ensure_certificates({}, TARGET, NOW)
    assert ensure_certificates(certificates.data(), TARGET, after(300)) == certificates
    assert ensure_certificates(certificates.data(), TARGET, after(300), certificates) == certificates


def test_a_certificate_is_renewed_a_month_before_it_ends_by_the_same_authority() -> None:
    certificates = ensure_certificates({}, TARGET, NOW)
    renewed = ensure_certificates(certificates.data(), TARGET, after(340), certificates)
    assert renewed.server != certificates.server
    assert renewed.bundle == certificates.bundle
    assert is_trusted(renewed)
    assert ensure_certificates(renewed.data(), TARGET, after(341), certificates) == renewed


def test_another_name_needs_another_certificate() -> None:
    certificates = ensure_certificates({}, TARGET, NOW)
    elsewhere = ensure_certificates(certificates.data(), WebhookTarget(namespace="ns", service="name"), NOW)
    assert elsewhere.server != certificates.server
    assert elsewhere.bundle == certificates.bundle
    assert ensure_certificates(elsewhere.data(), TARGET, NOW) == elsewhere, "both share the certificate"


def test_an_authority_that_nears_its_end_is_followed_by_another_and_both_are_believed() -> None:
    certificates = ensure_certificates({}, TARGET, NOW)
    followed = ensure_certificates(certificates.data(), TARGET, after(3600), certificates)
    assert len(authorities(followed)) == 2
    assert authorities(followed)[1] == authorities(certificates)[0]
    assert is_trusted(followed)
    assert ensure_certificates(followed.data(), TARGET, after(3601), followed) == followed


def test_an_authority_that_has_ended_is_dropped_with_the_next_renewal() -> None:
    certificates = ensure_certificates({}, TARGET, NOW)
    followed = ensure_certificates(certificates.data(), TARGET, after(3600))
    later = ensure_certificates(followed.data(), TARGET, after(3960))
    assert len(authorities(later)) == 1


def test_unreadable_certificates_are_created_again_and_the_published_ca_stays_trusted() -> None:
    certificates = ensure_certificates({}, TARGET, NOW)
    spoiled: tuple[dict[str, Any], ...] = (
        {},
        {"ca.crt": "%%%", "ca.key": 7},
        {**certificates.data(), "ca.key": base64.b64encode(b"no key").decode()},
        {**certificates.data(), "ca.crt": base64.b64encode(b"-----BEGIN CERTIFICATE-----\nx").decode()},
    )
    for data in spoiled:
        made = ensure_certificates(data, TARGET, NOW, certificates)
        assert is_trusted(made)
        assert authorities(certificates)[0] in authorities(made)


def test_a_certificate_of_a_foreign_authority_is_replaced() -> None:
    certificates, foreign = ensure_certificates({}, TARGET, NOW), ensure_certificates({}, TARGET, NOW)
    made = ensure_certificates(msgspec.structs.replace(certificates, server=foreign.server).data(), TARGET, NOW)
    assert is_trusted(made)
    assert made.bundle == certificates.bundle
