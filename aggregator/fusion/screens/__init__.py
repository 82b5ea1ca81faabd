"""Screens: which updates are excluded from their prototype's average, and why."""
