"""The papers' experiments, run by `edgestill experiment`: see docs/experiments.md.

A module here with an `EXPERIMENT` is an experiment; `feddf/toy.py` is called `feddf-toy`. Nothing else is needed to add
one: `fleet/experiments/base.py` says what an experiment consists of.
"""
