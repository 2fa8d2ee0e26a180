"""Objects beside pods and nodes that plugins need: namespaces, selectors, budgets, terminating pods."""
