"""The garbage collector: the graph of owner references and the deletions that follow from it."""
