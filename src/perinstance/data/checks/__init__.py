"""What a cell, an id and a file may be: refusals name rows and columns, never a value."""
