"""The ClusterRoles and bindings that every cluster has from its first start."""
