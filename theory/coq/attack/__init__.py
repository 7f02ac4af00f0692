"""The attack on theorems: statements are read from their files and tried, without the generator and without coqc.

``reader`` reads them, ``meaning`` says what they are at given letters (``clients``: Model.v in exact numbers; ``tries``:
values of inner letters), ``points`` finds letters that meet hypotheses, ``faults`` names what is wrong, ``run`` attacks all.

Belongs here: attempts to break statements. Does not belong here: statements and proofs themselves (theory.coq).
"""
