"""Fusion of a round: screen, weigh, average by prototype; then distill over all prototypes; then train the generator.

The stages call parts by name (`aggregator/recipes/parts.py`); no part imports the pipeline.
"""
