"""`edgestill doctor`, run on the board: identifies it, and reports what fits and what is missing."""
