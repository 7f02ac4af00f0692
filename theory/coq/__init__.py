"""From claims to Coq: ``generator`` writes algebra, ``prove`` checks it; ``statements`` and ``model_proofs`` do so for models.

Belongs here: what is proved and how it is checked.  Does not belong here: the generated files (``theory/proofs``).
"""
