"""`borrow fit`: a practitioner's table in, better estimates for every client out.

Belongs here: the commands, ``command`` (its steps, exit status) with ``options``, ``fitting`` (from these to a fit),
``folder`` (where files go), ``report`` (what came out, as text) and ``wording`` (errors in the words of the command line),
and ``budget``, what private runs spent.  Does not belong here: reading tables (``estimators.tables.client_table``), which
model goes with which data and what came out (``estimators.fit``), the models, drawing (``figures.shrinkage``).
"""
