"""The command line: parse, call, print. The work is done in the other packages."""
