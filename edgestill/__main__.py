"""`python -m edgestill`."""

from edgestill.cli.main import main

main()
