"""The papers' formulas as vectorised functions of plain numbers, accurate at extremes; claims of ``theory`` judge them.

Belongs here: ``aggregation``, ``personalization``, ``mean_regularized`` (server weights, strengths, risks, gaps),
``gaussian``, ``bernoulli``, ``mixture``, ``regression`` (exact risks, unbiased moments, EM), ``quantization``, ``priors``
and ``distillation`` (losses and penalties with gradients). Does not belong here: fitted models, privacy (``accounting``).
"""
