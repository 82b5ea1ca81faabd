"""Updates as vectors, distances between them, optimizers, and the compute device of fusion."""
