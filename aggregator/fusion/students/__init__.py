"""Distillation: a student of each prototype learns from the ensemble's logits, several of them in parallel."""
