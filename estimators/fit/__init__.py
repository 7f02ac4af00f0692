"""From a table of clients to an outcome: which model, its fit, and one row of results per client.

Belongs here: what `borrow fit` computes: ``models``, ``outcome``, ``private`` (every client runs its own side) and
``regressions`` (what a client knows by itself). Does not belong here: pictures, tables of text and options
(``figures.fit``).
"""
