"""From claims to Coq.

- What is stated of a claim: ``generator`` (algebra; ``setting``, ``certificates``, ``terms``), ``functions`` and ``boxes``
  (exp, log and erfc), ``defined`` and ``objects`` (what a formula is of, by its definition), ``statements`` (from the model,
  for every number of clients; ``models``, ``model``, ``frame``, ``sayings``, ``sayings_of_best``, ``refutations``).
- Which text that makes, or why none: ``texts``, in worker processes. Where it stands: ``proof_files``; how strong
  that is: ``grades``.
- What Coq says of it: ``checker`` runs coqc and coqchk, ``libraries`` finds the Coq files written by hand, ``known`` keeps
  what has been accepted.
- What becomes of a claim's file: ``prove``, ``model_proofs`` and ``code_proofs`` (the code that runs).
- ``attack`` tries to break what is stated.

Belongs here: what is proved and how it is checked.  Does not belong here: the generated files (``theory/proofs``).
"""
