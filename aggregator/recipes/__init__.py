"""Recipes as data: the parts that fuse a round, their options, and the lookup of parts. Imports no torch."""
