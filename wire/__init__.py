"""What crosses the air: topics, messages, tensors, chunks, signatures. NumPy only; importing it must not import torch."""
