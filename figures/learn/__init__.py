"""`borrow learn`: the learning experiments of the papers, one small file each, run, resumed, and compared with the papers.

An experiment is a TOML file in ``experiments`` (``experiment`` reads it), a run is one of its methods at one grid point with
one seed (``building`` makes what it trains, ``runs`` does it, in a folder of its own, ``checkpoints`` lets it go on after a
stop), a ``sweep`` is all runs of an experiment, and ``tables`` and ``plots`` show what came out beside what was printed.
Committed results are in ``results``.

Belongs here: experiments as data, running, storing, comparing.  Does not belong here: algorithms, models, data sets and
privacy, which are in ``estimators.federated``.
"""
