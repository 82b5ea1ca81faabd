"""Weights of updates in their prototype's average: by examples, by robust scores, by trust."""
