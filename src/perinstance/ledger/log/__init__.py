"""The transactional log: one row per event, chained by hashes.

``event_log`` appends and checks, over ``databases`` (SQLite in the folder, PostgreSQL through SQLAlchemy);
``charged_releases`` says which releases the events leave, and in which state.
"""
