"""What the comparison suites share: two servers, one way to ask them, one way to compare what they say."""
