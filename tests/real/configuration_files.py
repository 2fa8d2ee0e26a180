"""Scheduler configurations, good and bad, for `test_configuration.py`: YAML without the first two lines.

The bad ones are about one thing each, because the real scheduler stops at the first kind of trouble that it meets.
"""

from __future__ import annotations

ARGS = "profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"


def args(plugin: str, text: str) -> str:
    return ARGS.format(plugin=plugin, args=text)


GOOD = {
    "nothing said": "",
    "every number": (
        "parallelism: 3\npercentageOfNodesToScore: 70\npodInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 60\n"
        "delayCacheUntilActive: true\nenableProfiling: false"
    ),
    "leader election": "leaderElection: {leaderElect: true, leaseDuration: 1m30s, renewDeadline: 20s, retryPeriod: 4s}",
    "no leader election, whose numbers do not matter": "leaderElection: {leaderElect: false, leaseDuration: -1s}",
    "a profile of its own name": "profiles: [{schedulerName: other, percentageOfNodesToScore: 5}]",
    "two profiles": "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {score: {disabled: [{name: '*'}]}}}]",
    "no profiles": "profiles: []",
    "nulls": "profiles: null\nparallelism: null\nleaderElection: null",
    "a default disabled everywhere": "profiles: [{plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}}]",
    "a default disabled at one point": "profiles: [{plugins: {score: {disabled: [{name: TaintToleration}]}}}]",
    "an unknown name disabled": "profiles: [{plugins: {score: {disabled: [{name: Nobody}]}}}]",
    "all filters disabled": "profiles: [{plugins: {filter: {disabled: [{name: '*'}]}}}]",
    "only two filters": (
        "profiles: [{plugins: {filter: {disabled: [{name: '*'}], enabled: [{name: NodePorts}, {name: NodeName}]}}}]"
    ),
    "everything disabled and little enabled": (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, "
        "{name: DefaultBinder}, {name: NodeResourcesFit, weight: 9}]}}}]"
    ),
    "a weight at the point goes before one everywhere": (
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 8}]}, "
        "score: {enabled: [{name: NodeAffinity, weight: 4}]}}}]"
    ),
    "a weight everywhere": "profiles: [{plugins: {multiPoint: {enabled: [{name: ImageLocality, weight: 7}]}}}]",
    "a weight of nothing is one": "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: 0}]}}}]",
    "enabled beats disabled at a point": (
        "profiles: [{plugins: {score: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity, weight: 5}]}}}]"
    ),
    "enabled beats disabled everywhere": (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeAffinity}], enabled: [{name: NodeAffinity}]}}}]"
    ),
    "disabled everywhere, enabled at one point": (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeAffinity}]}, "
        "filter: {enabled: [{name: NodeAffinity}]}}}]"
    ),
    "the order at a point": (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodePorts}]}, filter: {enabled: [{name: NodePorts}, "
        "{name: InterPodAffinity}, {name: NodeName}]}}}]"
    ),
    "gates disabled": "profiles: [{plugins: {preEnqueue: {disabled: [{name: SchedulingGates}]}}}]",
    "the queue's order said at its point": (
        "profiles: [{schedulerName: a, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}},"
        " {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]"
    ),
    "arguments of everything": (
        "profiles: [{pluginConfig: ["
        "{name: NodeResourcesFit, args: {ignoredResources: [a.b/c], ignoredResourceGroups: [d.e], scoringStrategy: "
        "{type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 3}, {name: x.y/z}], "
        "requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}},"
        "{name: NodeResourcesBalancedAllocation, args: {resources: [{name: cpu, weight: 1}]}},"
        "{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: "
        "[{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}},"
        "{name: InterPodAffinity, args: {hardPodAffinityWeight: 5, ignorePreferredTermsOfExistingPods: true}},"
        "{name: NodeAffinity, args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
        "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}}}},"
        "{name: VolumeBinding, args: {bindTimeoutSeconds: 7}},"
        "{name: DefaultPreemption, args: {minCandidateNodesPercentage: 1, minCandidateNodesAbsolute: 2}}]}]"
    ),
    "most allocated": args("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated}}"),
    "arguments that name their type": args(
        "InterPodAffinity", "{kind: InterPodAffinityArgs, hardPodAffinityWeight: 0}"
    ),
    "arguments of nobody": args("Nobody", "{anything: 3}"),
    "arguments for a plugin that takes none": args("NodeName", "{anything: 3}"),
    "no arguments": "profiles: [{pluginConfig: [{name: NodeResourcesFit}]}]",
    "a term that selects nothing": args(
        "NodeAffinity",
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}, "
        "preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 0, preference: {matchFields: [{operator: Never}]}}]}}",
    ),
}

BAD = {
    "an unknown field": "nonsense: 3",
    "a misspelt field": "paralelism: 3",
    "a field in the wrong case": "Parallelism: 3",
    "unknown fields in many places": (
        "nonsense: 3\nprofiles: [{colour: 1, plugins: {score: {enabled: [{name: NodeName, size: 1}], other: 1}}}]"
    ),
    "the proposal's point": "profiles: [{plugins: {enqueue: {enabled: [{name: SchedulingGates}]}}}]",
    "an unknown field of arguments": args("NodeResourcesFit", "{strategy: {type: LeastAllocated}}"),
    "a field twice": "parallelism: 3\nparallelism: 4",
    "text for a number": "parallelism: three",
    "a fraction for a whole number": "parallelism: 1.5",
    "a number too large": "parallelism: 3000000000",
    "text for a list": "profiles: one",
    "a number for a name": "profiles: [{schedulerName: 3}]",
    "a duration without unit": "leaderElection: {leaseDuration: '15'}",
    "text for a weight": "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: heavy}]}}}]",
    "text for an argument": args("InterPodAffinity", "{hardPodAffinityWeight: heavy}"),
    "no parallelism": "parallelism: 0",
    "percentages out of range": "percentageOfNodesToScore: 101\nprofiles: [{percentageOfNodesToScore: -1}]",
    "backoff of nothing": "podInitialBackoffSeconds: 0",
    "backoff upside down": "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 2",
    "a burst below nothing": "clientConnection: {kubeconfig: KUBECONFIG, burst: -1}",
    "a lease that ends too soon": "leaderElection: {leaseDuration: 5s, renewDeadline: 65s}",
    "a lease below nothing": "leaderElection: {leaseDuration: -5s, retryPeriod: -1s}",
    "another lock": "leaderElection: {resourceLock: endpoints}",
    "two profiles without names": "profiles: [{}, {}]",
    "two profiles of one name": "profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]",
    "an empty name": "profiles: [{schedulerName: ''}]",
    "an unknown plugin": "profiles: [{plugins: {score: {enabled: [{name: Nobody}]}}}]",
    "an unknown plugin everywhere": "profiles: [{plugins: {multiPoint: {enabled: [{name: Nobody}]}}}]",
    "the proposal's plugin": "profiles: [{plugins: {preEnqueue: {enabled: [{name: DefaultEnqueue}]}}}]",
    "a plugin at a point that it does not serve": "profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]",
    "a weight below nothing": "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -3}]}}}]",
    "a plugin twice at a point": (
        "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}}]"
    ),
    "a plugin twice everywhere": (
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}}]"
    ),
    "no order of the queue": "profiles: [{plugins: {queueSort: {disabled: [{name: PrioritySort}]}}}]",
    "two orders of the queue": (
        "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: PrioritySort}]}}}]"
    ),
    "orders of the queue that differ": (
        "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]"
    ),
    "nothing that binds": "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
    "arguments twice": (
        "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {}}, {name: NodeResourcesFit, args: {}}]}]"
    ),
    "arguments of another type": args("NodeResourcesFit", "{kind: InterPodAffinityArgs}"),
    "arguments of another version": args("NodeResourcesFit", "{apiVersion: kubescheduler.config.k8s.io/v1beta3}"),
    "an unknown strategy": args("NodeResourcesFit", "{scoringStrategy: {type: Middling}}"),
    "a strategy without type": args("NodeResourcesFit", "{scoringStrategy: {resources: [{name: cpu}]}}"),
    "a strategy without its shape": args("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio}}"),
    "a shape that goes back": args(
        "NodeResourcesFit",
        "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: "
        "{shape: [{utilization: 50, score: 11}, {utilization: 10, score: -1}, {utilization: 200, score: 3}]}}}",
    ),
    "an empty shape": args(
        "NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}}"
    ),
    "resources out of weight": args(
        "NodeResourcesFit", "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}"
    ),
    "ignored names that are none": args("NodeResourcesFit", "{ignoredResources: [a b], ignoredResourceGroups: [a/b]}"),
    "a balance with weights": args(
        "NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}, {name: cpu, weight: 1}]}"
    ),
    "spreading by list without saying so": args(
        "PodTopologySpread", "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}"
    ),
    "spreading badly": args(
        "PodTopologySpread",
        "{defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: 'a b', whenUnsatisfiable: Never}, "
        "{labelSelector: {matchLabels: {a: b}}}, {maxSkew: 1, topologyKey: x, whenUnsatisfiable: DoNotSchedule}, "
        "{maxSkew: 1, topologyKey: x, whenUnsatisfiable: DoNotSchedule}]}",
    ),
    "spreading by an unknown rule": args("PodTopologySpread", "{defaultingType: Sometimes}"),
    "affinity out of range": args("InterPodAffinity", "{hardPodAffinityWeight: 101}"),
    "added affinity that makes no sense": args(
        "NodeAffinity",
        "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: "
        "[{key: a, operator: Like}, {key: b, operator: In}, {key: c, operator: Gt, values: [x]}]}, "
        "{matchFields: [{key: metadata.name, operator: In, values: [a, b]}, {key: x, operator: Exists}]}]}, "
        "preferredDuringSchedulingIgnoredDuringExecution: "
        "[{weight: 3, preference: {matchExpressions: [{key: ' ', operator: Exists}]}}]}}",
    ),
    "no time to bind": args("VolumeBinding", "{bindTimeoutSeconds: -1}"),
    "a shape for volumes": args("VolumeBinding", "{shape: [{utilization: 0, score: 0}]}"),
    "no candidates at all": args("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"),
    "candidates out of range": args(
        "DefaultPreemption", "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}"
    ),
}
