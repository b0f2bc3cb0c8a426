"""The transactional log: one row per event, chained by hashes, and which releases the events leave."""
