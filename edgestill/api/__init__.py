"""The functions and classes of `import edgestill`: arguments in, the use cases of the other packages, results out.

What a user may rely on is in `docs/api.md`; the command line calls the same use cases.
"""
