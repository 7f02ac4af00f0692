"""What one client's rows say by themselves: laws of a client's own regression."""

import numpy as np
import pytest

from estimators.fit.regressions import least_squares, own_logistic


@pytest.mark.parametrize("own", [least_squares, own_logistic])
@pytest.mark.parametrize("scale", [[1.0, 1e8, 1e-9], [1e-12, 1.0, 1e12]])
def test_units_of_features_do_not_matter(own, scale):
    rng = np.random.default_rng(0)
    X, scale = np.column_stack([np.ones(60), rng.normal(size=(60, 2))]), np.array(scale)
    y = (rng.random(60) < 1 / (1 + np.exp(-X @ [0.5, 1.0, -0.5]))) * 1.0
    plain, scaled = own(X, y), own(X * scale, y)
    assert np.isfinite(plain).all()
    for one, two in zip(plain, scaled, strict=True):
        assert two * scale == pytest.approx(one, rel=1e-10)


@pytest.mark.parametrize("own", [least_squares, own_logistic])
@pytest.mark.parametrize(
    "X", [np.ones((5, 2)), np.column_stack([np.ones(5), np.zeros(5)]), np.ones((0, 2)), np.ones((1, 2))]
)
def test_rows_that_determine_nothing_have_no_estimate(own, X):
    assert np.isnan(own(X, (np.arange(len(X)) % 2) * 1.0)).all()


@pytest.mark.parametrize("own", [least_squares, own_logistic])
@pytest.mark.parametrize(
    ("X", "y"), [(np.ones((4, 2)), np.ones(3)), (np.ones(4), np.ones(4)), (np.ones((4, 2, 1)), np.ones(4))]
)
def test_shapes_that_do_not_fit_are_named(own, X, y):
    with pytest.raises(ValueError, match="X must be"):
        own(X, y)
