"""The command line of edgestill; everything else is in the other packages of the distribution."""

__version__ = "0.1.0"
