"""Prototypes: extractor + predictor at a precision; the zoo; the latent generator."""
