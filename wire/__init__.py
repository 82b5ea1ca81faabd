"""The wire format: topics, messages, tensors, chunks, signatures. Depends on NumPy, never on torch."""
