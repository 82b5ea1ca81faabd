"""The agent's protocol without I/O: events in, actions out, time as an argument.

`agent` decides, `download` and `upload` count chunks, `replay` tells recorded instructions from new ones. Nothing here
opens a file or a socket.
"""
