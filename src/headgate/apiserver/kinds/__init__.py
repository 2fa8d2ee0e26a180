"""The table of served kinds: one row for each kind, with its strategy, subresources and columns."""
