"""From claims to Coq: ``generator`` and ``prove`` for algebra, ``functions`` and ``boxes`` for exp, log and erfc,
``statements`` and ``model_proofs`` for models, and ``code_proofs`` for the code that runs; ``libraries`` finds the Coq files
written by hand; ``attack`` tries to break what is stated.

Belongs here: what is proved and how it is checked.  Does not belong here: the generated files (``theory/proofs``).
"""
