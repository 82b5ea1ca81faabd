"""The command line of edgestill. Everything else lives in the packages beside this one."""

__version__ = "0.1.0"
