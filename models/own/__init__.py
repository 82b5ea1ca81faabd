"""Users' own networks: any `nn.Module` that returns logits, as a prototype.

`network.py` says what a user gives; the others build it, split it into extractor and predictor, and replace its layers
by those of a precision.
"""
