"""`python -m edgestill.web PID ...` is `edgestill web ...` in a child of the service PID, with which it ends."""

import sys

from core.processes.process_limits import die_with_parent
from edgestill.cli.main import main

if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    main(["web", *sys.argv[2:]])
