"""Quota as somebody sees it who asks once: lists in, the engine rebuilt, nothing decided."""
