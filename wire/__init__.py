"""What crosses the air: topics, messages, tensors, chunks, signatures. NumPy only: importing it imports no torch."""
