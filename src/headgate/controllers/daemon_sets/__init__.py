"""DaemonSets: one pod on every eligible node, bound there by the scheduler.

``placement.py`` decides which nodes are eligible and builds the pod for a node, ``node_state.py`` decides what one node
needs, ``daemon_nodes.py`` keeps that for all nodes of one set with its sums, ``rolling_update.py`` decides which pods
are replaced next. ``controller.py`` watches, enqueues and puts the steps in order.
"""
