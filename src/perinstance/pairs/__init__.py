"""Two distributions per person, and every number that follows from them."""
