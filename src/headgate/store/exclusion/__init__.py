"""Who may change the store at present."""
