"""The cluster that ``headgate up`` runs in one process."""
