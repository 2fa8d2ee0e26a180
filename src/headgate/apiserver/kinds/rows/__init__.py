"""The rows of built-in kinds, by API group."""
