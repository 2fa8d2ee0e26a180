"""The plugins of the default profile that find a node, in the order and with the weights that Kubernetes gives them."""

from __future__ import annotations

from headgate.scheduling.contract import Filter, Lineup, PreFilter, PreScore, Score
from headgate.scheduling.plugins.image_locality import ImageLocality
from headgate.scheduling.plugins.node_affinity import NodeAffinity
from headgate.scheduling.plugins.node_name import NodeName
from headgate.scheduling.plugins.node_ports import NodePorts
from headgate.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from headgate.scheduling.plugins.node_resources_fit import NodeResourcesFit
from headgate.scheduling.plugins.node_unschedulable import NodeUnschedulable
from headgate.scheduling.plugins.taint_toleration import TaintToleration


def default_lineup(fit: NodeResourcesFit | None = None) -> Lineup:
    taints, affinity, resources = TaintToleration(), NodeAffinity(), fit or NodeResourcesFit()
    balance = NodeResourcesBalancedAllocation()
    filters: tuple[Filter, ...] = (NodeUnschedulable(), NodeName(), taints, affinity, NodePorts(), resources)
    scores: tuple[tuple[Score, int], ...] = (
        (taints, 3),
        (affinity, 2),
        (resources, 1),
        (balance, 1),
        (ImageLocality(), 1),
    )
    return Lineup(
        pre_filters=tuple(each for each in filters if isinstance(each, PreFilter)),
        filters=filters,
        pre_scores=tuple(each for each, _ in scores if isinstance(each, PreScore)),
        scores=scores,
    )
