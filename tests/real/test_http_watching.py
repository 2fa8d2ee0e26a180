"""Watches: where they start, what they send, when they send nothing, and how they refuse.

Streams that run to their end cost a second each; the others are cut when the expected number of events came.
"""

from __future__ import annotations

import pytest

from harness.objects import CONFIG_MAPS, PODS, config_map, gated, pod
from harness.request_cases import (
    METADATA,
    TABLE,
    Case,
    Stream,
    apply,
    case,
    cases_of,
    delete,
    events,
    get,
    open_watch,
    patch,
    post,
    stream,
)
from harness.server_pair import ServerPair

pytestmark = pytest.mark.real

TWO = [
    post(CONFIG_MAPS, config_map("a", labels={"app": "x"})).named("a"),
    post(CONFIG_MAPS, config_map("b", labels={"app": "y"})).named("b"),
]
FROM_HERE = f"{CONFIG_MAPS}?resourceVersion=${{list:/metadata/resourceVersion}}"
LISTED = get(CONFIG_MAPS).named("list")
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

STARTS = [
    case("from the beginning", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0", 2)),
    case("from no revision", *TWO, stream(CONFIG_MAPS, 2)),
    case(
        "from an object's revision", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=${{a:/metadata/resourceVersion}}", 1)
    ),
    case("from the list: nothing new", *TWO, LISTED, stream(FROM_HERE)),
    case("of an empty collection", stream(f"{CONFIG_MAPS}?resourceVersion=0"), stream(CONFIG_MAPS)),
    case(
        "past events again",
        *TWO,
        patch(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}),
        delete(f"{CONFIG_MAPS}/b"),
        stream(f"{CONFIG_MAPS}?resourceVersion=${{a:/metadata/resourceVersion}}", 3),
    ),
    *(
        case(f"from the revision {value}", stream(f"{CONFIG_MAPS}?resourceVersion={value}"))
        for value in ("abc", "-1", "1.5", "99999999999999999999999")
    ),
    *(
        case(
            f"with the match {match} and revision {revision or 'unset'}",
            stream(f"{CONFIG_MAPS}?resourceVersionMatch={match}&resourceVersion={revision}"),
        )
        for match in ("NotOlderThan", "Exact", "Odd")
        for revision in ("", "0")
    ),
    case("with a limit", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0&limit=1", 2)),
    case(
        "with a continue token",
        *TWO,
        get(f"{CONFIG_MAPS}?limit=1").named("page"),
        stream(f"{CONFIG_MAPS}?continue=${{page:/metadata/continue}}"),
    ),
    *(
        case(f"timeoutSeconds={value}", Stream(f"{CONFIG_MAPS}?watch=true&timeoutSeconds={value}"))
        for value in ("abc", "1.5")
    ),
    *(
        case(f"watch={value}", *TWO, Stream(f"{CONFIG_MAPS}?timeoutSeconds=1&resourceVersion=0&watch={value}", 2))
        for value in ("1", "True", "t", "yes", "")
    ),
    case("watch=false is a list", *TWO, get(f"{CONFIG_MAPS}?watch=false"), get(f"{CONFIG_MAPS}?watch=0")),
]
FLOW = [
    case(
        "a life in three events",
        LISTED,
        open_watch("w", FROM_HERE),
        post(CONFIG_MAPS, config_map("new")),
        patch(f"{CONFIG_MAPS}/new", {"data": {"k": "2"}}),
        delete(f"{CONFIG_MAPS}/new"),
        events("w", 3),
    ),
    case(
        "a write that changes nothing makes no event",
        *TWO,
        LISTED,
        open_watch("w", FROM_HERE),
        patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}),
        apply(f"{CONFIG_MAPS}/c", config_map("c"), "m"),
        apply(f"{CONFIG_MAPS}/c", config_map("c"), "m"),
        patch(f"{CONFIG_MAPS}/a", {"data": {"k": "other"}}),
        events("w", 2),
    ),
    case(
        "a dry run makes no event",
        LISTED,
        open_watch("w", FROM_HERE),
        post(f"{CONFIG_MAPS}?dryRun=All", config_map("ghost")),
        post(CONFIG_MAPS, config_map("real")),
        events("w", 1),
    ),
    case(
        "objects come and go by their labels",
        *TWO,
        LISTED,
        open_watch("w", f"{FROM_HERE}&labelSelector=app=x"),
        patch(f"{CONFIG_MAPS}/b", {"data": {"k": "unseen"}}),
        patch(f"{CONFIG_MAPS}/b", {"metadata": {"labels": {"app": "x"}}}),
        patch(f"{CONFIG_MAPS}/b", {"data": {"k": "seen"}}),
        patch(f"{CONFIG_MAPS}/b", {"metadata": {"labels": {"app": "z"}}}),
        patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": None}}),
        delete(f"{CONFIG_MAPS}/b"),
        post(CONFIG_MAPS, config_map("c", labels={"app": "x"})),
        delete(f"{CONFIG_MAPS}/c"),
        events("w", 6),
    ),
    case(
        "pods come and go by their fields",
        post(PODS, pod("p")),
        get(PODS).named("list"),
        open_watch(
            "w", f"{PODS}?resourceVersion=${{list:/metadata/resourceVersion}}&fieldSelector=status.phase=Running"
        ),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}),
        patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}}),
        patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}}),
        events("w", 3),
    ),
    case(
        "by name",
        *TWO,
        LISTED,
        open_watch("w", f"{FROM_HERE}&fieldSelector=metadata.name=b"),
        patch(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}),
        patch(f"{CONFIG_MAPS}/b", {"data": {"k": "2"}}),
        events("w", 1),
    ),
    case(
        "a finalizer makes two events of a deletion",
        post(CONFIG_MAPS, {**config_map("f"), "metadata": {"name": "f", "finalizers": ["example.com/f"]}}),
        LISTED,
        open_watch("w", FROM_HERE),
        delete(f"{CONFIG_MAPS}/f"),
        patch(f"{CONFIG_MAPS}/f", {"metadata": {"finalizers": None}}),
        events("w", 2),
    ),
    case(
        "a placed pod is deleted in two events",
        post(PODS, pod("p", nodeName="n")),
        get(PODS).named("list"),
        open_watch("w", f"{PODS}?resourceVersion=${{list:/metadata/resourceVersion}}"),
        delete(f"{PODS}/p"),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
        events("w", 2),
    ),
    case(
        "a collection is deleted event by event",
        *TWO,
        LISTED,
        open_watch("w", FROM_HERE),
        delete(CONFIG_MAPS),
        events("w", 2),
    ),
    case(
        "gates are lifted in the open",
        post(PODS, gated("p", "a", "b")),
        get(PODS).named("list"),
        open_watch("w", f"{PODS}?resourceVersion=${{list:/metadata/resourceVersion}}"),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": [{"name": "b"}]}}),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": None}}),
        events("w", 2),
    ),
    case(
        "across namespaces",
        LISTED,
        open_watch(
            "w",
            "/api/v1/configmaps?resourceVersion=${list:/metadata/resourceVersion}&fieldSelector=metadata.namespace={ns}",
        ),
        post(CONFIG_MAPS, config_map("new")),
        events("w", 1),
    ),
    case(
        "a kind outside namespaces",
        get("/apis/scheduling.k8s.io/v1/priorityclasses").named("list"),
        open_watch("w", "/apis/scheduling.k8s.io/v1/priorityclasses?resourceVersion=${list:/metadata/resourceVersion}"),
        post(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "{ns}"}, "value": 3},
        ),
        delete("/apis/scheduling.k8s.io/v1/priorityclasses/{ns}"),
        events("w", 2),
    ),
]
FORMS = [
    case("as tables from the beginning", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0", 2, TABLE)),
    case("as tables with objects", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0&includeObject=Object", 2, TABLE)),
    case("as tables with nothing", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0&includeObject=None", 2, TABLE)),
    case("as metadata", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0", 2, METADATA)),
    case(
        "tables of pods as they change",
        get(PODS).named("list"),
        open_watch("w", f"{PODS}?resourceVersion=${{list:/metadata/resourceVersion}}", TABLE),
        post(PODS, gated("p", "a")),
        patch(f"{PODS}/p", {"spec": {"schedulingGates": None}}),
        patch(f"{PODS}/p/status", {"status": {"phase": "Running", "conditions": None}}),
        delete(f"{PODS}/p?gracePeriodSeconds=0"),
        events("w", 4),
    ),
    case("in yaml", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0", accept="application/yaml")),
    case("in something else", *TWO, stream(f"{CONFIG_MAPS}?resourceVersion=0", accept="text/html")),
    case(
        "in protobuf or json",
        *TWO,
        stream(f"{CONFIG_MAPS}?resourceVersion=0", 2, accept="application/json,application/odd"),
    ),
    case(
        "in a stream of json",
        *TWO,
        stream(f"{CONFIG_MAPS}?resourceVersion=0", 2, accept="application/json;stream=watch"),
    ),
]
LISTS = [
    case("the initial list and its end", *TWO, stream(f"{CONFIG_MAPS}?{INITIAL}&resourceVersion=", 3)),
    case("the initial list from zero", *TWO, stream(f"{CONFIG_MAPS}?{INITIAL}&resourceVersion=0", 3)),
    case(
        "the initial list not older than",
        *TWO,
        stream(f"{CONFIG_MAPS}?{INITIAL}&resourceVersion=${{b:/metadata/resourceVersion}}", 3),
    ),
    case("the initial list of nothing", stream(f"{CONFIG_MAPS}?{INITIAL}", 1)),
    case("the initial list, selected", *TWO, stream(f"{CONFIG_MAPS}?{INITIAL}&labelSelector=app=y", 2)),
    case("the initial list as tables", *TWO, stream(f"{CONFIG_MAPS}?{INITIAL}", 3, TABLE)),
    case("the initial list as metadata", *TWO, stream(f"{CONFIG_MAPS}?{INITIAL}", 3, METADATA)),
    case(
        "the initial list without bookmarks",
        *TWO,
        stream(f"{CONFIG_MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 2),
    ),
    case("the initial list without a match", stream(f"{CONFIG_MAPS}?sendInitialEvents=true")),
    case(
        "the initial list with an exact match",
        stream(f"{CONFIG_MAPS}?sendInitialEvents=true&resourceVersionMatch=Exact"),
    ),
    case(
        "no initial events",
        *TWO,
        stream(f"{CONFIG_MAPS}?sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0"),
    ),
    case("no initial events and no match", stream(f"{CONFIG_MAPS}?sendInitialEvents=false")),
    case(
        "initial events of a list",
        get(f"{CONFIG_MAPS}?sendInitialEvents=true"),
        get(f"{CONFIG_MAPS}?sendInitialEvents=false"),
        get(f"{CONFIG_MAPS}?sendInitialEvents=maybe"),
    ),
    case(
        "the initial list and what follows",
        *TWO,
        open_watch("w", f"{CONFIG_MAPS}?{INITIAL}"),
        events("w", 3),
        post(CONFIG_MAPS, config_map("c")),
        delete(f"{CONFIG_MAPS}/a"),
        events("w", 2),
    ),
    case("bookmarks asked for", *TWO, LISTED, stream(f"{FROM_HERE}&allowWatchBookmarks=true")),
    case("bookmarks asked for oddly", stream(f"{CONFIG_MAPS}?allowWatchBookmarks=maybe")),
]
PLACES = [
    case("a namespace that does not exist", stream("/api/v1/namespaces/nope/configmaps")),
    case("a single object", *TWO, stream(f"{CONFIG_MAPS}/a")),
    case(
        "the old watch path",
        *TWO,
        Stream("/api/v1/watch/namespaces/{ns}/configmaps?timeoutSeconds=1&resourceVersion=0", 2),
    ),
    case(
        "the old watch path of one",
        *TWO,
        Stream("/api/v1/watch/namespaces/{ns}/configmaps/b?timeoutSeconds=1&resourceVersion=0", 1),
    ),
    case("a bad selector", stream(f"{CONFIG_MAPS}?labelSelector=((("), stream(f"{CONFIG_MAPS}?fieldSelector=odd=1")),
    case("an unknown kind", stream("/api/v1/namespaces/{ns}/odds")),
]
CASES = cases_of(STARTS, FLOW, FORMS, LISTS, PLACES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_watches_send_the_same(servers: ServerPair, case: Case) -> None:
    servers.compare(case)
