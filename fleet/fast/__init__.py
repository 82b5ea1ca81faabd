"""Fast paths of the simulation: several perceptrons as one batched product, samples stored as bytes."""
