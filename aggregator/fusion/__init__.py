"""Fusion parts: pure functions on tensors, one small module each."""
