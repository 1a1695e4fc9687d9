"""The screen, on Textual. It draws a PoolView some ten times a second and sends commands; it never touches an engine.

``run.py`` is the way in. Every key is an entry of ``actions/``, every panel a file of ``widgets/``, every dialog a file
of ``screens/``; a theme becomes terminal styles in ``palette.py`` and nowhere else.
"""
