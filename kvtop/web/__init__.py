"""The dashboard in a browser: a server that gives each page the program on a terminal of the page's own.

The server and the terminal in the page are textual-serve's; the page around it is ours, because theirs fetches a font
from elsewhere. Nothing here draws and nothing here knows an engine.
"""
