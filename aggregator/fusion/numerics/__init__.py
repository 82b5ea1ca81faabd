"""Updates as vectors, distances between them, optimizers, and the compute device that fusion runs on."""
