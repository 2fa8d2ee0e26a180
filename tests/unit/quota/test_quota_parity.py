"""Cases that the comparison with Kueue (`tests/real/test_kueue_parity.py`) has found."""

from __future__ import annotations

from kueue_builders import a_pod_set
from quota_engine import Api


def test_a_search_over_pod_sets_at_different_flavors_ends() -> None:
    """Each time one set moves on to the second flavor, the other one begins with the first."""
    api = Api()
    for name in ("spot", "fixed"):
        api.flavor(name)
    api.queue("cq", {"spot": {"cpu": 2}, "fixed": {"cpu": 2}})
    for name, cpu in (("first", 2), ("second", 1)):
        api.submit(name, cpu=cpu)
        api.cycle()
    api.finish("first")
    api.submit("both", a_pod_set("one", requests={"cpu": 2}), a_pod_set("other", requests={"cpu": 2}))
    api.cycle()
    assert api.admitted() == ["second"]
    status, reason, message = api.condition("both")
    assert (status, reason) == ("False", "WaitingForQuota")
    assert "flavor spot" in message, "all flavors are told of, not only those of the last part of the search"
    api.finish("second")
    api.cycle()
    assert api.admitted() == ["both"]


def test_a_flavor_that_is_too_small_is_not_the_reason_if_another_one_of_its_group_is_available() -> None:
    """What stands in the way is the other resource group; the reason agrees with the message."""
    api = Api()
    for name in ("small", "large", "gpu"):
        api.flavor(name)
    api.queue("lender", {"gpu": {"example.com/gpu": 1}}, local="lender", cohortName="co")
    api.queue("cq", {"small": {"cpu": 1}, "large": {"cpu": 10}}, {"gpu": {"example.com/gpu": 0}}, cohortName="co")
    api.submit("first", a_pod_set(requests={"example.com/gpu": 1}), queue="lender")
    api.cycle()
    api.submit("second", a_pod_set(requests={"cpu": 2, "example.com/gpu": 1}))
    api.cycle()
    assert api.admitted() == ["first"]
    status, reason, message = api.condition("second")
    assert message == (
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for example.com/gpu in flavor gpu, 1 more needed"
    )
    assert (status, reason) == ("False", "WaitingForQuota")
