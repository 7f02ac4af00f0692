"""Claims of Ozkara, Girgis, Data and Diggavi, "A Generative Framework for Personalized Learning ...".

Model of Section 2.1: theta_i ~ N(mu, sigma2_theta I_d), client i has n samples N(theta_i, sigma2_x I_d) and
knows their mean; mu is unknown.  Section 3.1: Y_i = X_i theta_i + noise of variance sigma2_x, the prior is
known.

Belongs here: what that paper prints and how it is judged, one module per subject.
Does not belong here: engines.
"""

from theory.generative import bounds, experiments, gaussian, local_privacy, messages, mixture, norms, quantiser, regression

__all__ = ["bounds", "experiments", "gaussian", "local_privacy", "messages", "mixture", "norms", "quantiser", "regression"]
