"""The tables of built-in kinds, by API group."""
