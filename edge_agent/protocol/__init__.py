"""The agent's protocol without I/O: events in, actions out, time as an argument.

`agent` decides, `download` and `upload` track chunks, `replay` distinguishes replayed instructions from new ones.
Nothing here opens a file or a socket.
"""
