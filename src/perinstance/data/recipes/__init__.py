"""Public rules, fixed in advance, that turn each raw row into numbers by that row alone."""
