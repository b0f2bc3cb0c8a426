"""Commands that need no data of the user's: ``demo`` on an example table, ``reproduce`` for the paper's figures."""
