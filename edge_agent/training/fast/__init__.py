"""Hand-written fast paths of local SGD. Each gives the numbers of the plain path, and a test holds it to that."""
