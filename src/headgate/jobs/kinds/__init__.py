"""Job kinds as data: built-in ones and those from files."""
