"""What was charged, composed: for everybody, for one person, from release to release, and against a budget."""
