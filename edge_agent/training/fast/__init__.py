"""Hand-written fast paths of local SGD. Each gives the results of the plain path, which a test checks."""
