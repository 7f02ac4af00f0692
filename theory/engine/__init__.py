"""What judges a claim: the record, derivation and brute force, domains, judges, mutants, evidence.

the claim       claim domain condition edit tight exemption exemption_checks switches assumption lines notation
papers          paper registry reading problem inventory
a derivation    derivation steps hierarchy; the oracle: bruteforce
decisions       algebra fractions values intervals
judging         judging, and a module per level in levels; mutants simulation disturbance; joint (how judges fail together)
code as formula traced tracing relinked reals ratios
the display     literal latex
what is shared  independence reach
evidence        evidence

Belongs here: machinery that knows no paper.  Does not belong here: claims (``theory.papers``), proofs (``theory.coq``).
"""
