"""Warnings about a simulated run: too few local steps, lost devices, models near chance level.

A warning is text for the user; it changes nothing in the run. Imports no torch.
"""
