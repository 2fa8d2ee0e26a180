"""The order in which queues, groups and pods are tried."""
