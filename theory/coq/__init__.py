"""From claims to Coq: ``generator`` writes statements and proofs, ``prove`` checks the files.

Belongs here: what is proved and how it is checked.  Does not belong here: the generated files (``theory/proofs``).
"""
