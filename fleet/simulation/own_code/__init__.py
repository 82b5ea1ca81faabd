"""Users' own classes and functions in a simulation: where a setting names one, and how it gets its name.

`named.py` finds the names in settings and loads those in files; `objects.py` turns what a program passes into names;
`local.py` makes a device train by a user's loss or loop.
"""
