"""The command line: parse, call, print. What a command does lives in the other packages."""
