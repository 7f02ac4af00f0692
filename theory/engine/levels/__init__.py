"""The levels of evidence on a claim, a module each with its `level`, and what several of them share.

derived         printed against the derivation, on the whole domain
slack           how loose a bound is where its claim says
computed        derivation against oracle and float64 function
simulated       the model's raw noise against the derived value
integrated      exact means of the simulation's quadratic statistics against the derived value, nothing drawn
attacked        a search for points that break the verdict
mutated         wrong variations of the formula, which must be rejected
independent     what two judges share
literal         the paper's display against the printed formula
points          where a claim is tried
oracle          the oracle's answers, each asked for once
counterexample  a point at which the printed formula fails

Belongs here: how each level decides and what it records.  Does not belong here: their order (``theory.engine.judging``), the
verdict that follows (``theory.engine.evidence``), mathematics of a paper.
"""
