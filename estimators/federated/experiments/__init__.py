"""Experiments as small files: what is run, all its runs, checkpoints, and result lines.

Belongs here: ``experiment`` (reading files), ``plan`` (the dataclasses), ``vocabulary`` and ``building`` (from names to
tasks and algorithms), ``runs``, ``sweep``, ``checkpoints``, ``results``; the papers' tables and figures are in the folder
``files``, what the papers claim of them in ``published``, judged by ``comparing``. Does not belong here: tables, plots and
options of `borrow learn` (``figures.learn``).
"""
