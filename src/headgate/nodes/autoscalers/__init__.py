"""Models of Cluster Autoscaler and Karpenter."""
