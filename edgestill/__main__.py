"""`python -m edgestill`."""

from edgestill.cli import main

main()
