"""Models of Cluster Autoscaler and Karpenter.

The modules cite the modelled rules as CA-1, CA-2, … and KP-1, KP-2, …; ``docs/autoscalers.md`` summarizes them.
"""
