"""Use cases of the commands about boards, one module each: plain values in, a value out, progress by a callback.

They print nothing and read no command line; `edgestill/cli/boards/` parses, calls them and prints.
"""
