"""Recipes as data: which parts fuse a round, with which options, and where parts are found. Imports no torch."""
