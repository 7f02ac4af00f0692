"""What judges a claim: the record, derivation and brute force, domains, judges, mutants, evidence.

Belongs here: machinery that knows no paper.  Does not belong here: claims (``theory.papers``), proofs (``theory.coq``).
"""
