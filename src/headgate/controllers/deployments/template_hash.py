"""The pod-template-hash that kube-controller-manager computes: the last part of a ReplicaSet's name.

kube-controller-manager prints the template as a Go value, with the names of types and fields, and hashes the text
(FNV-1a, 32 bits). The tables of ``schemas/`` have the types and their fields in Go's order, so the same text can be
made from the wire object; the few field names that do not follow from the wire names are listed here. Amounts are
printed with their internal fields, so the way in which Go parses them matters too. A template with a creation time is
hashed without it.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, Final

from headgate.kube import quantity
from headgate.kube.integers import read_integer
from headgate.kube.name_hashes import fnv1a, safe_encode
from headgate.kube.schema import Field, Schemas, Type

Object = dict[str, Any]

_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
_CAPITALS: Final = {
    "apiGroup": "APIGroup",
    "apiVersion": "APIVersion",
    "awsElasticBlockStore": "AWSElasticBlockStore",
    "cephfs": "CephFS",
    "chapAuthDiscovery": "DiscoveryCHAPAuth",
    "chapAuthSession": "SessionCHAPAuth",
    "csi": "CSI",
    "diskURI": "DataDiskURI",
    "dnsConfig": "DNSConfig",
    "dnsPolicy": "DNSPolicy",
    "endpoints": "EndpointsName",
    "fc": "FC",
    "fsGroup": "FSGroup",
    "fsGroupChangePolicy": "FSGroupChangePolicy",
    "fsType": "FSType",
    "gcePersistentDisk": "GCEPersistentDisk",
    "gmsaCredentialSpec": "GMSACredentialSpec",
    "gmsaCredentialSpecName": "GMSACredentialSpecName",
    "grpc": "GRPC",
    "httpGet": "HTTPGet",
    "httpHeaders": "HTTPHeaders",
    "ip": "IP",
    "iqn": "IQN",
    "iscsi": "ISCSI",
    "iscsiInterface": "ISCSIInterface",
    "metadata": "ObjectMeta",
    "nfs": "NFS",
    "os": "OS",
    "pdName": "PDName",
    "rbd": "RBD",
    "seLinuxChangePolicy": "SELinuxChangePolicy",
    "seLinuxOptions": "SELinuxOptions",
    "serviceAccount": "DeprecatedServiceAccount",
    "sslEnabled": "SSLEnabled",
    "storageos": "StorageOS",
    "tcpSocket": "TCPSocket",
    "tty": "TTY",
    "uid": "UID",
    "wwids": "WWIDs",
}
_OF_TYPES: Final = {
    "RBDVolumeSource": {"image": "RBDImage", "monitors": "CephMonitors", "pool": "RBDPool", "user": "RadosUser"},
}
_SCALARS: Final[dict[str, tuple[str, Any]]] = {
    "string": ("string", ""),
    "bool": ("bool", False),
    "int32": ("int32", 0),
    "int64": ("int64", 0),
    "float": ("float64", 0),
}
_SPECIAL: Final = {"quantity": "resource.Quantity", "time": "v1.Time", "intorstring": "intstr.IntOrString"}
_NO_TIME: Final = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
_NIL: Final = "<nil>"
_AMOUNT: Final = re.compile(r"-?0*+([0-9]*+)(?:([numkMGTPE]?)|([KMGTPE]i)|[eE]([+-]?[0-9]+))")
_DECIMAL: Final = {
    suffix: 3 * place - 9 for place, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))
}
_BINARY: Final = {suffix: 10 * place + 10 for place, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))}
_WORD: Final = (1 << 64) - 1


class TemplateHash:
    def __init__(self, schemas: Schemas) -> None:
        self._types: Final = schemas.types

    def __call__(self, template: Object, collisions: int | None) -> str:
        """``collisions``: how often the name was already taken; None and zero give different hashes."""
        text = f"(v1.PodTemplateSpec){self._struct(_TEMPLATE, template)}".encode()
        counted = b"" if collisions is None else (collisions % 2**32).to_bytes(8, "little")
        return safe_encode(fnv1a(text + counted))

    def _struct(self, ref: str, value: Object) -> str:
        """Prints embedded fields in a struct of their own, as Go does."""
        name = ref.rpartition(".")[2]
        parts = []
        for embedded, group in groupby(self._types[ref].fields, key=lambda field: field.embedded):
            inner = " ".join(self._field(name, field, value.get(field.name)) for field in group)
            parts.append(f"{embedded}:(v1.{embedded}){{{inner}}}" if embedded else inner)
        return "{" + " ".join(parts) + "}"

    def _field(self, owner: str, field: Field, value: Any) -> str:
        name = _OF_TYPES.get(owner, {}).get(field.name) or _CAPITALS.get(field.name)
        name = name or field.name[0].upper() + field.name[1:]
        go = ("*" if field.pointer else "") + _go_type(field.type)
        text = _NIL if field.pointer and value is None else self._value(field.type, value)
        return f"{name}:({go}){text}"

    def _value(self, type: Type, value: Any) -> str:
        match type.kind:
            case "struct":
                return self._struct(type.ref, value or {})
            case "list" if type.items is not None:
                items = type.items
                return "[" + " ".join(self._value(items, each) for each in value) + "]" if value else _NIL
            case "map" if type.items is not None:
                items = type.items
                pairs = (f"{key}:{self._value(items, each)}" for key, each in sorted((value or {}).items()))
                return "map[" + " ".join(pairs) + "]" if value else _NIL
            case "quantity":
                return _amount(value)
            case "time":
                return _NO_TIME
            case "intorstring":
                return _int_or_string(value)
            case "bool":
                return "true" if value else "false"
            case "raw" | "bytes":
                return _NIL
            case _:
                return str(_SCALARS[type.kind][1] if value is None else value)


def _go_type(type: Type) -> str:
    if type.go:
        return type.go
    if type.kind == "struct":
        return f"v1.{type.ref.rpartition('.')[2]}"
    if type.items is not None:
        return ("[]" if type.kind == "list" else "map[string]") + _go_type(type.items)
    return _SPECIAL.get(type.kind) or _SCALARS[type.kind][0]


def _int_or_string(value: int | str | None) -> str:
    is_text = isinstance(value, str)
    number, text = (0, value) if is_text else (value or 0, "")
    return f"{{Type:(intstr.Type){int(is_text)} IntVal:(int32){number} StrVal:(string){text}}}"


def _amount(text: str | None) -> str:
    """A quantity as Go stores it: a short one as a 64-bit number with a scale, and with its text if Go keeps that; a
    long one as a number of any length, in billionths."""
    match = _AMOUNT.fullmatch(text or "0")
    if text is None or text == "0" or match is None:
        return _printed(0, 0, "0", "DecimalSI")
    digits, decimal, binary, exponent = match.groups()
    digits = digits or "0"
    sign = -1 if text.startswith("-") else 1
    if binary:
        power = _BINARY[binary]
        if 15 - len(digits) - power * 3 // 10 - 1 >= 0:
            kept = text if int(digits) & 7 else ""
            return _printed(sign * int(digits) << power, 0, kept, "BinarySI")
        return _long(text)
    scale = _DECIMAL[decimal] if exponent is None else read_integer(exponent) or 0
    if len(digits) <= 18 and scale >= -9:
        kept = text if scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0" else ""
        return _printed(sign * int(digits), scale, kept, "DecimalSI" if exponent is None else "DecimalExponent")
    return _long(text)


def _long(text: str) -> str:
    parsed = quantity.amount(text)
    words, rest = [], abs(parsed.nano)
    while rest:
        words.append(str(rest & _WORD))
        rest >>= 64
    number = f"(big.Int){{neg:(bool){'true' if parsed.nano < 0 else 'false'} abs:(big.nat)[{' '.join(words)}]}}"
    return _printed(0, 0, "", parsed.format, f"{{unscaled:{number} scale:(inf.Scale)9}}")


def _printed(value: int, scale: int, text: str, format: str, long: str = _NIL) -> str:
    return (
        f"{{i:(resource.int64Amount){{value:(int64){value} scale:(resource.Scale){scale}}}"
        f" d:(resource.infDecAmount){{Dec:(*inf.Dec){long}}} s:(string){text} Format:(resource.Format){format}}}"
    )
