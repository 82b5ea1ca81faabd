"""Scripts of a kit that a board runs before edgestill is installed: its system's Python, the standard library, no more.

Each is one file, copied into the kit as it is and signed with it; nothing of edgestill is imported.
"""
