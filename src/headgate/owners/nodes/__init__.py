"""What happens to nodes that fall silent, and to the pods on nodes that do not want them any more.

``controller.py`` watches over the health of nodes and taints them; ``eviction.py`` ends pods by what taints say. The
two know nothing of each other: the taint is all that passes between them.
"""
