"""From updates and weights to one state of a prototype."""
