"""The papers, one package each, and what several of them share (``shared``).

Belongs here: claims.  Does not belong here: engines.
"""
