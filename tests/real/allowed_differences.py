"""The only differences between the embedded and the real server that the comparison lets pass, each with its reason.

At most 20. An entry that no case meets in a full run fails that run, and so does one that is met more than twice as
often as in the recorded runs (`harness/allowances.py`, `tests/conftest.py`).
"""

from __future__ import annotations

import json
import re
from typing import Any

from harness.allowances import Allowance, Form

NONE = r"\(absent\)"
MESSAGE = r"body/(message|details/causes/\d+/message)"

# -- texts in which only the shown values differ -------------------------------------------------------------------


def _without_values(text: str) -> str:
    """A text whose shown values, objects and lists, are cut out one by one; what stands between them stays."""
    head, mark, rest = text.partition("Invalid value: ")
    if not mark:
        return text
    try:
        _, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        end = 0
    value = "<value>" if rest[:1] in ("{", "[") else rest[:end]
    return f"{head}{mark}{value}{_without_values(rest[end:])}"


def _same_but_for_values(real: str, ours: str) -> bool:
    return _without_values(real) == _without_values(ours)


def _same_but_for_empties(real: str, ours: str) -> bool:
    return re.sub(r": (\{\}|\[\]): ", ": null: ", real) == ours


_DIFF = re.compile(r"\n(@@ [^\n]*\n)?([ +-][^\n]*\n|@@ [^\n]*\n)*[+-][^\n]*\n([ +-][^\n]*\n|@@ [^\n]*\n)*")


def _same_but_for_diffs(real: str, ours: str) -> bool:
    """Both show a diff, and the same words before and after it."""
    return _DIFF.sub("<diff>", real).split() == _DIFF.sub("<diff>", ours).split() and "<diff>" in _DIFF.sub(
        "<diff>", ours
    )


VALUES = (
    Form(
        "test_(http_(custom_definitions|definition_schemas|devices|kinds|reviews)|(custom|kind|patch)_differential"
        "|gates_jobs)",
        MESSAGE,
        r'.*Invalid value: [\[{].*"[A-Z]\w*":.*',
        r".*Invalid value: [\[{].*",
        alike=_same_but_for_values,
    ),
)
EMPTIES = (
    Form(
        "test_http_custom_definitions|test_http_devices|test_kind_differential",
        MESSAGE,
        r".*: (\{\}|\[\]): .*",
        r".*: null: .*",
        cases=r"versions of a definition|slices that are refused for more than one reason|spoiled .*",
        alike=_same_but_for_empties,
    ),
    Form(
        "test_patch_differential",
        MESSAGE,
        r".*: \{\}: `selector` does not match template `labels`.*",
        r".*: null: `selector` does not match template `labels`.*",
        cases=r"patches of .*",
        alike=_same_but_for_empties,
    ),
)
DIFFS = (
    Form(
        "test_(gates(_directives)?|(kind|patch)_differential|http_(kinds|pod_subresources|service_accounts))",
        MESSAGE,
        r".*\n@@ -\d+(,\d+)? \+\d+(,\d+)? @@\n.*",
        r".*\n[+-].*",
        alike=_same_but_for_diffs,
    ),
    Form(
        "test_kubectl_session",
        "body/stderr",
        r".*\n@@ -\d+(,\d+)? \+\d+(,\d+)? @@\n.*",
        r".*\n[+-].*",
        cases="kubectl: gates in every form",
        alike=_same_but_for_diffs,
    ),
)

# -- texts of Go's decoders ----------------------------------------------------------------------------------------

_UNMARSHAL = r"json: cannot unmarshal \w+ into Go struct field (\w*\.)?[\w.]+ of type \S+"
DECODING = (
    Form(
        "test_patch_differential",
        MESSAGE,
        rf"(?P<same>.*patch: Invalid value: .*|Invalid value: .*){_UNMARSHAL}",
        rf"(?P<same>.*patch: Invalid value: .*|Invalid value: .*){_UNMARSHAL}",
        cases=r"patches of .*",
    ),
)
PARSERS = (
    Form(
        "test_http_common_changes",
        MESSAGE,
        r'(?P<same>.*Invalid value: "<secret contents redacted>": )invalid character \'o\' in literal null .*',
        r'(?P<same>.*Invalid value: "<secret contents redacted>": )invalid character \'n\' looking for beginning .*',
        cases="secrets of every well-known type, filled",
    ),
    Form(
        "test_http_reading",
        "body/message",
        r"(?P<same>invalid continue token: continue key is not valid: )invalid character '.' looking for beginning .*",
        r"(?P<same>invalid continue token: continue key is not valid: )JSON is malformed: .*",
        cases="a list at a revision that .*|a bad continue token, .*",
    ),
    Form(
        "test_http_webhooks_failing",
        MESSAGE,
        r"(?P<same>.*couldn't get version/kind; json parse error: )json: cannot unmarshal string into Go value of .*",
        r"(?P<same>.*couldn't get version/kind; json parse error: )invalid character '.' looking for beginning .*",
        cases="an answer: no JSON",
    ),
)


def _conversion(case: str, real: str, ours: str) -> Form:
    failed = r"(?P<same>conversion webhook for test\.example\.com/v\d, Kind=Box failed: )"
    return Form("test_http_custom_conversion", "body/message", failed + real, failed + ours, cases=case)


_VERSION = "couldn't get version/kind; json parse error: "
_FIELD = r"json: cannot unmarshal \w+ into Go struct field "
CONVERSIONS = (
    _conversion(
        "a webhook that spoils bytes",
        rf"{_VERSION}json: cannot unmarshal string into Go value of type struct .*",
        r"invalid character 'h' in literal true \(expecting 'r'\)",
    ),
    _conversion(
        "a webhook that answers with deep objects",
        rf"{_VERSION}invalid character '\[' exceeded max depth",
        "exceeded max depth",
    ),
    _conversion(
        "a webhook that answers with a kind that is a number",
        rf"{_VERSION}json: cannot unmarshal number into Go struct field \.kind of type string",
        r"expected webhook response of (?P<group>\S+), Kind=ConversionReview, got (?P=group), Kind=",
    ),
    _conversion(
        "a webhook that answers with a (result|message) that is a list",
        rf"{_FIELD}(ConversionResponse\.response\.result of type v1\.Status|Status\.response\.result\.message of .*)",
        r"response\.result is not a Status",
    ),
    _conversion(
        "a webhook that answers with (a number|an object) of objects",
        rf"{_FIELD}ConversionResponse\.response\.convertedObjects of type \[\]runtime\.RawExtension",
        r"response\.convertedObjects is not a list",
    ),
    _conversion(
        "a webhook that answers with a response that is a list",
        rf"{_FIELD}ConversionReview\.response of type v1\.ConversionResponse",
        "no response provided",
    ),
)
OTHER_KINDS = (
    Form(
        "test_http_kinds",
        "body/message",
        r"(?P<same>Status in version \"v1\" cannot be handled as a Event: )"
        r"converting \(v1\.Status\) to \(core\.Event\): unknown conversion",
        r"(?P<same>Status in version \"v1\" cannot be handled as a Event: )"
        r"converting \(v1\.Status\) to \(events\.Event\): unknown conversion",
        cases=r"Event events\.k8s\.io/v1: .*",
    ),
    Form(
        "test_http_(patching|writing)",
        MESSAGE,
        r"(?P<same>.*)illegal base64 data at input byte 0",
        r"(?P<same>.*)converting \(v1\.Secret\) to \(core\.ConfigMap\): unknown conversion",
        cases="(json|merge) patch: what may not change|an update of another kind",
    ),
)
_TYPES = "strategic patch: wrong types"
_SHOWN = r'(?P<same>.*Invalid value: "map\[.*\]": )'
STRATEGIC = (
    Form("test_http_strategic", MESSAGE, rf"{_SHOWN}cannot restore \w+ from:? \w+", _SHOWN + _UNMARSHAL, cases=_TYPES),
    Form("test_http_strategic", MESSAGE, rf"{_SHOWN}unrecognized type: int32", _SHOWN + _UNMARSHAL, cases=_TYPES),
)

# -- bounds --------------------------------------------------------------------------------------------------------

_DEPTH = r"invalid character '.' exceeded max depth"


def _refused_instead(case: str, status: str, warning: str, message: str) -> tuple[Form, ...]:
    """The real server takes the object, ours answers with a Status."""

    def form(path: str, real: str, ours: str) -> Form:
        return Form("test_http_bad_input", path, real, ours, cases=case)

    return (
        form("status", status, "400"),
        form("headers/warning", rf'\["299 - \\"unknown field \\\\\\"{warning}\\\\\\"\\""\]', NONE),
        form("body/kind", "ConfigMap", "Status"),
        form(
            "body/metadata/(name|namespace|uid|resourceVersion|creationTimestamp|managedFields)|body/data", ".+", NONE
        ),
        form("body/status", NONE, "Failure"),
        form("body/message", NONE, message),
        form("body/reason", NONE, "BadRequest"),
        form("body/code", NONE, "400"),
    )


_BODY = "a body: deep nesting in an unknown field"
_UNREADABLE = r"the object provided is unrecognized \(must be of type ConfigMap\): " + _VERSION
NESTING = (
    *_refused_instead(_BODY, "201", "odd", rf"{_UNREADABLE}{_DEPTH} \(.*\)"),
    *_refused_instead("a patch that nests deeply", "200", r"metadata\.metadata", f"error decoding patch: {_DEPTH}"),
    Form(
        "test_http_bad_input",
        "body/message",
        r'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "odd"',
        rf"{_UNREADABLE}{_DEPTH} \(.*\)",
        cases=_BODY,
    ),
    _conversion("a webhook that answers with a deep answer", "yaml: exceeded max depth of 10000", "exceeded max depth"),
)
NUMBERS = (
    Form(
        "test_http_bad_input",
        "body/message",
        r'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number 1e999 into .*',
        rf"{_UNREADABLE}json: cannot unmarshal number 1e999 into Go value of type float64 \(.*\)",
        cases="a body: a huge number",
    ),
)

# -- what is not served --------------------------------------------------------------------------------------------

UNSERVED = ("apiregistration.k8s.io", "certificates.k8s.io", "flowcontrol.apiserver.k8s.io")


def _only_unserved_are_missing(real: Any, ours: Any) -> bool:
    named = isinstance(real, list) and all(isinstance(each, dict) and "name" in each for each in real)
    return named and [each for each in real if each["name"] not in UNSERVED] == ours


GROUPS = (
    Form(
        "test_http_bad_input",
        "body/groups",
        r'\[\{"name": .*\]',
        r'\[\{"name": .*\]',
        cases="the path /apis/|the method PUT on /apis",
        alike=_only_unserved_are_missing,
    ),
)
_POD = r"/api/v1/namespaces/\{namespace\}/pods/\{name\}"
_PARAMETERS = {
    f"body/(get|post) {_POD}/attach": '["container", "stderr", "stdin", "stdout", "tty"]',
    f"body/(get|post) {_POD}/exec": '["command", "container", "stderr", "stdin", "stdout", "tty"]',
    f"body/(get|post) {_POD}/portforward": '["ports"]',
    f"body/get {_POD}/log": '["container", "follow", "insecureSkipTLSVerifyBackend", "limitBytes", "previous", '
    '"sinceSeconds", "stream", "tailLines", "timestamps"]',
}
PARAMETERS = tuple(
    Form("test_http_discovery", f"{path}/query", re.escape(listed), r"\[\]", cases="the operations of v1")
    for path, listed in _PARAMETERS.items()
)
_PLACES = {
    r"GET \S+/pods/x/log/?( as \w+)?": "204",
    r"(GET|POST) \S+/pods/x/exec/?( as \w+)?": "400",
    r"[A-Z]+ \S+/pods/x/proxy(/a/b)?/?( as \w+)?": "400",
    r"[A-Z]+ \S+/nodes/x/proxy/?( as \w+)?": "500",
    r"GET /api/v1/componentstatuses(/etcd-0)?( as \w+)?": "200",
}
NOT_SERVED = tuple(
    Form("test_request_matrix", "status", real, "501", cases="every method on .*", steps=step)
    for step, real in _PLACES.items()
)

# -- what describes ------------------------------------------------------------------------------------------------

BUILD = (
    Form(
        "test_http_(access|bad_input|discovery|impersonation|rbac|security)",
        "body/gitVersion",
        r"(?P<same>v[0-9.]+)",
        r"(?P<same>v[0-9.]+)\+headgate\.[0-9.]*[0-9]",
        steps=r"(\d+\. )?(GET )?/version/*(\?timeout=5s)?",
    ),
    Form(
        "test_kubectl_session",
        "body/stdout",
        r"(?P<same>.*(Server Version: |\"serverVersion\": \{[^}]*\"gitVersion\": \")v[0-9.]+)(?P<rest>[\"\n].*)",
        r"(?P<same>.*(Server Version: |\"serverVersion\": \{[^}]*\"gitVersion\": \")v[0-9.]+)"
        r"\+headgate\.[0-9.]*[0-9](?P<rest>[\"\n].*)",
        cases="kubectl: looking around",
        steps=r"\d+\. kubectl version.*",
    ),
)
COLUMNS = (
    Form(
        "test_(http_.*|gates|gates_directives)",
        r"body/(\d+/object/)?columnDefinitions/\d+/description",
        ".*",
        r"[A-Z][^\n]{2,100}\.",
    ),
)
_CRITICAL = r"Used for system critical pods that must "
CLASSES = tuple(
    Form("test_http_(admission|selecting|watching)", r"body/(items/\d+/)?description", real, ours)
    for real, ours in (
        (f"{_CRITICAL}not be moved from their current node.", "For pods that a node cannot do without and .*"),
        (f"{_CRITICAL}run in the cluster, .*", "For pods that the cluster cannot do without, .*"),
    )
)
_COMPONENT = r"#/components/schemas/io.k8s.api.networking.v1.HTTPIngressRuleValue"
_RULE = r"body/io\.k8s\.api\.networking\.v1\.IngressRule/properties/http/"
_META = "DeleteOptions|ListMeta|Patch|Preconditions|Status|StatusCause|StatusDetails|WatchEvent"
SCHEMAS = (
    Form(
        "test_http_discovery",
        r"body/io\.k8s\.api\.core\.v1\.(AppArmorProfile|SeccompProfile)/x-kubernetes-unions",
        r'\[\{"discriminator": "type", "fields-to-discriminateBy": \{.*\}\}\]',
        NONE,
        cases="the schemas of ((apps|batch)/)?v1",
    ),
    Form(
        "test_http_discovery",
        rf"body/io\.k8s\.apimachinery\.pkg\.(apis\.meta\.v1\.({_META})|runtime\.RawExtension)",
        NONE,
        r'\{"type": "object".*\}',
        cases=r"the schemas of (authentication|authorization)\.k8s\.io/v1",
    ),
    Form("test_http_discovery", rf"{_RULE}\$ref", _COMPONENT, NONE, cases=r"the schemas of networking\.k8s\.io/v1"),
    Form(
        "test_http_discovery",
        f"{_RULE}allOf",
        NONE,
        rf'\[\{{"\$ref": "{_COMPONENT}"\}}\]',
        cases=r"the schemas of networking\.k8s\.io/v1",
    ),
)


def _says_more_of_cel(real: Any, ours: list[str]) -> bool:
    """Beside the real server's warnings ours has others, and all of them say this."""
    rest = [each for each in ours if "is not evaluated by the embedded API server" not in each]
    return rest == (real if isinstance(real, list) else [])


CEL = (
    Form(
        "test_(http_(definition_schemas|kinds|protobuf)|kind_differential)",
        "headers/warning",
        rf"{NONE}|\[.*\]",
        r"\[.*is not evaluated by the embedded API server.*\]",
        cases=r"(spoiled )?ValidatingAdmissionPolicy(Binding)? .*|rules in a schema",
        alike=_says_more_of_cel,
    ),
)

# -- what controllers do -------------------------------------------------------------------------------------------


def _one_later(real: str, ours: str) -> bool:
    first, second = (int(re.sub(r"\D", "", each)) for each in (real, ours))
    return first == second + 1


CLAIMS = (
    Form(
        "test_http_kinds",
        "body/metadata/resourceVersion",
        r"<revision-\d+>",
        r"<revision-\d+>",
        cases="PersistentVolumeClaim v1: (the minimal one gets its defaults|it is applied by two managers)",
        alike=_one_later,
    ),
)
NAMES = (
    Form(
        "test_workloads",
        r"body/\d+/[a-z]+/\d+/(status/conditions/\d+/)?message",
        r'(?P<same>pods "[a-z0-9<>-]+-)(?P<rest>" is forbidden: no PriorityClass with name \S+ was found)',
        r'(?P<same>pods "[a-z0-9<>-]+-)\*(?P<rest>" is forbidden: no PriorityClass with name \S+ was found)',
        cases="pods ask for a priority class that is not there",
    ),
)

RECORDED: dict[str, tuple[int, ...]] = {
    "the build": (34, 34, 34, 32, 32),
    "column descriptions": (1619, 1619, 1619, 2285, 2285, 2285),
    "descriptions of system priority classes": (5, 5, 5, 5, 5),
    "values in texts": (143, 143, 143, 153, 155, 155),
    "explicit empties": (8, 8, 8, 16, 8, 8),
    "diffs in texts": (263, 263, 263, 327, 326, 326),
    "which field is told": (10, 10, 10, 14, 14),
    "texts of parsers": (11, 11, 11, 11, 11),
    "texts about conversion answers": (23, 23, 23, 23, 23),
    "objects of another kind": (9, 9, 9, 9, 9),
    "strategic patches of wrong types": (6, 6, 6, 6, 6),
    "deep nesting": (30, 30, 30, 30, 30),
    "huge numbers": (2, 2, 2, 2, 2),
    "groups": (2, 2, 2, 2, 2),
    "parameters of exec and logs": (7, 7, 7, 7, 7),
    "logs, exec, proxies, component status": (82, 82, 82, 82, 82),
    "schema hints": (26, 26, 26, 26, 26),
    "warnings about CEL": (50, 50, 50, 50, 50),
    "a claim's first update": (8, 8, 8, 8, 8),
    "names in refusals": (2, 2, 2, 2, 2),
}
"""How often each was met, run by run, with the draws of `DRAWN`. A run that draws more meets more."""
DRAWN = {"patch_pairs": 3000, "spoiled_step": 9}


def _allowance(name: str, reason: str, forms: tuple[Form, ...]) -> Allowance:
    return Allowance(name, reason, RECORDED[name], forms)


ALLOWED: tuple[Allowance, ...] = (
    _allowance("the build", "the version names Headgate after the Kubernetes version it serves", BUILD),
    _allowance("column descriptions", "they are prose; ours is our own", COLUMNS),
    _allowance("descriptions of system priority classes", "they are prose; ours is our own", CLASSES),
    _allowance("values in texts", "the real server shows them as its internal Go types", VALUES),
    _allowance("explicit empties", "texts show an explicit [] or {} that was refused as null", EMPTIES),
    _allowance("diffs in texts", "the real server diffs internal Go types, ours the object", DIFFS),
    _allowance("which field is told", "of several fields of wrong types Go's decoder tells its first", DECODING),
    _allowance("texts of parsers", "Go's JSON parser shows where it stopped reading, ours where it did", PARSERS),
    _allowance("texts about conversion answers", "Go names its types; ours says what is wrong", CONVERSIONS),
    _allowance("objects of another kind", "Go decodes before it compares kinds, ours after", OTHER_KINDS),
    _allowance("strategic patches of wrong types", "Go patches untyped maps, ours typed objects", STRATEGIC),
    _allowance("deep nesting", "documents of more than 250 levels are refused; the real bound is 10,000", NESTING),
    _allowance("huge numbers", "1e999 is refused while parsing, before a field is looked at", NUMBERS),
    _allowance("groups", "certificates, flow control and API registration are not served", GROUPS),
    _allowance("parameters of exec and logs", "these endpoints are refused whatever the parameters", PARAMETERS),
    _allowance("logs, exec, proxies, component status", "there is nothing behind them: 501 says so", NOT_SERVED),
    _allowance("schema hints", "no union hints; some unused components; one $ref wrapped in allOf", SCHEMAS),
    _allowance("warnings about CEL", "it is not evaluated, and clients are told", CEL),
    _allowance("a claim's first update", "the real server rewrites it though nothing changed", CLAIMS),
    _allowance("names in refusals", "our controllers draw the names of pods, so that a refusal has all of it", NAMES),
)
if len(ALLOWED) > 20:
    raise ValueError("too many allowed differences: repair some")
