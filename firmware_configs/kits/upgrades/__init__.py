"""Other versions of edgestill for boards that run: the signed bundle, and the program of a kit that installs it."""
