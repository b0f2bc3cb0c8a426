from types import SimpleNamespace

import numpy as np
import pytest

from perinstance.analysis import variants
from perinstance.pairs import GaussianShift, LaplaceShift, PosteriorSamplePair


def test_each_column_is_its_own_definition():
    """Posterior pairs by quadrature over w."""
    mu, rho = 0.3, 1.2
    table = variants(PosteriorSamplePair([mu], [rho]), 1e-4, orders=(2.0,))
    w = np.linspace(rho - 15, rho + 15, 600_001)
    p = np.exp(-((w - rho) ** 2) / (2 * mu)) / np.sqrt(2 * np.pi * mu)
    v = mu / (1 + mu)
    q = np.exp(-((w - rho / (1 + mu)) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    dw = w[1] - w[0]
    keep = (p > 1e-250) & (q > 1e-250)
    log = np.log(p[keep] / q[keep])
    kl = max((p[keep] * log).sum() * dw, -(q[keep] * log).sum() * dw)
    chi = max((p[keep] ** 2 / q[keep]).sum() * dw, (q[keep] ** 2 / p[keep]).sum() * dw)
    assert table["kl"][0] == pytest.approx(kl, rel=1e-6)
    assert table["renyi(2)"][0] == pytest.approx(np.log(chi), rel=1e-5)
    assert table["tv"][0] == pytest.approx(0.5 * np.abs(p - q).sum() * dw, rel=1e-5)
    eps = table["approximate"][0]
    assert np.maximum(p - np.exp(eps) * q, 0).sum() * dw == pytest.approx(1e-4, rel=1e-3)
    assert table["pure"][0] == np.inf and table["zcdp"][0] == np.inf


def test_pure_and_concentrated_where_they_are_finite():
    assert variants(LaplaceShift([0.5]), 1e-6)["pure"][0] == pytest.approx(0.5)
    assert variants(GaussianShift([0.4]), 1e-6)["zcdp"][0] == pytest.approx(0.08)


def test_an_audit_will_do():
    audit = SimpleNamespace(pairs=GaussianShift([0.1, 0.2, 0.3]), delta=1e-5)
    table = variants(audit)
    assert table.delta == 1e-5 and table.values.shape == (3, len(list(table)))
    assert table.on_average_kl == pytest.approx(np.mean([0.005, 0.02, 0.045]))
    assert table.random_dp(0.4) == pytest.approx(GaussianShift([0.2]).epsilon(1e-5)[0])
    assert list(table.to_frame().columns) == list(table)
    assert "largest" in str(table)
