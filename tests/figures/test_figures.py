"""Theory figures: refused where lines and simulations disagree; the same bytes each time; clear errors."""

import argparse
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import figures
from estimators.accounting import dpsgd, privacy
from estimators.closed_forms import aggregation, bernoulli, gaussian, mean_regularized, mixture, personalization
from estimators.federated import audit_cases
from estimators.montecarlo import SampledExperiment, run
from figures import FIGURES, build, points, saving, style
from figures.commands import add_figures
from theory.engine import registry

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", params=FIGURES)
def built(request, tmp_path_factory):
    """Name of each figure, its data read back from its JSON file, and its files."""
    folder = tmp_path_factory.mktemp(request.param)
    files = build.build(request.param, folder, ["svg"], quick=True)
    return request.param, json.loads(files[-1].read_text()), files


def main(*arguments, jobs=1):
    parser = argparse.ArgumentParser(prog="borrow")
    add_figures(parser.add_subparsers(required=True).add_parser("figures"))
    args = parser.parse_args(["figures", "--jobs", str(jobs), *map(str, arguments)])
    return args.run(args)


@contextmanager
def unprivileged():
    """Root may write anywhere, so give that up where the test runs as root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def curves(data):
    """All curves anywhere in the data of a figure."""
    if isinstance(data, dict) and "points" in data and "x" in data:
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from curves(value)
    elif isinstance(data, list):
        for value in data:
            yield from curves(value)


def test_every_curve_is_simulated_and_marked_at_its_lowest_point(built):
    name, data, _ = built
    found = list(curves(data))
    beside = 2 if name == "mixture_learning" else 0  # EM's two numbers belong to no curve
    assert found
    assert sum(len(curve["points"]["x"]) for curve in found) == data["provenance"]["points"] - beside
    for curve in found:
        assert len(curve["points"]["x"]) >= 4
        assert np.isfinite(curve["y"]).all()
        assert min(curve["points"]["se"]) > 0
        if "optimum" in curve:
            assert curve["optimum"]["y"] <= min(curve["y"])


def test_points_lie_inside_their_axes(built):
    name, data, _ = built
    for axes in np.atleast_1d(figures.load(name).draw(data).axes):
        low, high = axes.get_ylim()
        for container in axes.containers:
            heights = container[0].get_ydata()
            assert (heights > low).all()
            assert (heights < high).all()


def test_standard_errors_are_smaller_than_the_markers_as_the_figures_say(built):
    name, data, _ = built
    for axes in np.atleast_1d(figures.load(name).draw(data).axes):
        height = axes.get_window_extent().height
        for container in axes.containers:
            for segment in container[2][0].get_segments():
                bottom, top = axes.transAxes.inverted().transform(axes.transData.transform(segment))[:, 1]
                marker = 3.6 / 72 * axes.figure.dpi / height
                assert top - bottom < marker


def test_claims_are_registered_and_in_the_provenance(built):
    name, data, _ = built
    claims = figures.load(name).CLAIMS
    assert data["provenance"]["claims"] == list(claims)
    assert len(set(claims)) == len(claims) > 1
    assert set(claims) <= {claim.id for claim in registry.claims()}


def test_provenance(built):
    name, data, files = built
    assert [path.name for path in files] == [f"{name}.svg", f"{name}.json"]
    assert data["figure"] == name
    assert {"claims", "parameters", "root_seed", "replicates_per_point", "versions"} <= set(data["provenance"])


def test_bytes_are_the_same_in_another_process(tmp_path):
    """Neither another hash seed nor another user's settings, nor the other formats or processes, may show."""
    names = ("mr_mtl_risk", "noise_estimates")  # lines of a kernel; and linear algebra
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\n")
    code = (
        "from figures.build import build_all\n"
        f"if __name__ == '__main__': build_all({names!r}, '.', ('pdf', 'png', 'svg'), True, jobs=2)"
    )
    (tmp_path / "script.py").write_text(code)
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "1",
        "MATPLOTLIBRC": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    subprocess.run([sys.executable, "script.py"], check=True, env=environment, cwd=tmp_path)
    for name, forms in zip(names, (style.FORMATS, ["png"]), strict=True):
        for form in forms:
            for path in build.build(name, tmp_path / form, [form], quick=True):
                assert (tmp_path / path.name).read_bytes() == path.read_bytes(), path.name


REDRAWN = (
    "opt_out_point",
    "mr_mtl_tuning",
    "dpsgd_noise",
    "aggregate_noise",
    "mixture_learning",
    "collaboration_region",
    "privacy_audit",
)


@pytest.mark.parametrize("built", REDRAWN, indirect=True)
def test_the_stored_data_draw_the_same_bytes_again(built):
    name, data, files = built
    assert style.render(figures.load(name).draw(data), "svg", name) == files[0].read_bytes()


def test_drawing_leaves_settings_alone(built):
    import matplotlib

    before = dict(matplotlib.rcParams)
    name, data, _ = built
    figures.load(name).draw(data)
    assert dict(matplotlib.rcParams) == before


BROKEN = {
    "opt_out_regression": (personalization, "local_mse"),
    "opt_out_point": (personalization, "local_mse"),
    "server_variance_ratio": (aggregation, "server_mse"),
    "server_variance_fraction": (aggregation, "server_mse"),
    "mr_mtl_risk": (mean_regularized, "mse"),
    "mr_mtl_gaps": (mean_regularized, "gap_to_local"),
    "mr_mtl_tuning": (mean_regularized, "mse"),
    "silo_strength": (mean_regularized, "silo_strength"),
    "dpsgd_noise": (dpsgd, "model_update_variance"),
    "noise_estimates": (aggregation, "aggregate_variance"),
    "aggregate_noise": (aggregation, "aggregate_variance"),
    "gaussian_risk": (gaussian, "risk"),
    "bernoulli_moments": (bernoulli, "naive_variance_mean"),
    "bernoulli_private": (bernoulli, "report_variance"),
    "mixture_learning": (mixture, "posterior_mean"),
    "private_messages": (gaussian, "risk"),
    "adaped_bound": (privacy, "gaussian_delta"),
    "collaboration_region": (personalization, "local_mse"),
    "privacy_audit": (privacy, "gaussian_delta"),
    "simulation_error": (mean_regularized, "mse"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_wrong_closed_form_is_refused_and_nothing_is_overwritten(name, monkeypatch, tmp_path):
    module, function = BROKEN[name]
    right = getattr(module, function)
    monkeypatch.setattr(module, function, lambda *args, **kwargs: 1.05 * right(*args, **kwargs))
    (tmp_path / f"{name}.json").write_text("before")
    with pytest.raises(points.FigureContradiction, match="standard errors apart"):
        build.build(name, tmp_path, quick=True)
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]
    assert (tmp_path / f"{name}.json").read_text() == "before"


def test_a_contradiction_has_status_1_and_the_others_are_built(monkeypatch, tmp_path, capsys):
    right = mean_regularized.mse
    monkeypatch.setattr(mean_regularized, "mse", lambda *args: 1.05 * right(*args))
    status = main("mr_mtl_risk", "server_variance_fraction", "--quick", "--json", "--out", tmp_path)
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert status == 1
    assert [entry["figure"] for entry in result["contradictions"]] == ["mr_mtl_risk"]
    assert [entry["figure"] for entry in result["figures"]] == ["server_variance_fraction"]
    assert "contradiction: mr_mtl_risk" in said.err
    assert all(Path(path).exists() for path in result["figures"][0]["files"])


def test_a_figure_that_cannot_be_built_has_status_2_and_the_others_are_built(monkeypatch, tmp_path, capsys):
    def missing(quick):
        raise FileNotFoundError(2, "No such file or directory", "counties.csv")

    monkeypatch.setattr(import_module("figures.gaussian_risk"), "compute", missing)
    (tmp_path / "mr_mtl_gaps.json").mkdir()
    names = "opt_out_ponit", "gaussian_risk", "mr_mtl_gaps", "mr_mtl_risk"
    status = main(*names, "--quick", "--format", "svg", "--json", "--out", tmp_path)
    said = capsys.readouterr()
    result = json.loads(said.out)
    assert status == 2
    assert [entry["figure"] for entry in result["figures"]] == ["mr_mtl_risk"]
    assert [entry["figure"] for entry in result["errors"]] == ["opt_out_ponit", "gaussian_risk", "mr_mtl_gaps"]
    assert "did you mean opt_out_point" in said.err
    assert "gaussian_risk is not built" in said.err
    assert "counties.csv" in said.err


def test_a_statement_without_simulation_is_refused_too(monkeypatch):
    """The gain over the better end is said to be largest at equal variances; one run may show several statistics."""
    wrong = {"estimates": 3.0}
    monkeypatch.setattr(
        "estimators.server.robust_pca.noise_variances",
        lambda updates, **_: type("Found", (), {"converged": True, "variances": np.arange(1, 21) * wrong["estimates"]}),
    )
    with pytest.raises(points.FigureContradiction, match="more noise than the least"):
        figures.load("noise_estimates").compute(quick=True)


def test_the_limit_grows_where_replicates_are_few():
    assert points.limit(100_000) == pytest.approx(4.892, abs=1e-3)
    coin = SampledExperiment(lambda gen, reps: gen.standard_normal((reps, 2)), 2)
    few = points.Points("few", quick=True)
    found = few.compare("coin", [0, 1], lambda _: 0.0, lambda _: coin, of=[1.0, 0.0], share=1e-9)
    assert few.compare("coin", [0, 1], lambda _: 0.0, lambda _: coin, of=[0.0, 1.0], share=1e-9)["y"][0] != found["y"][0]
    assert len(few.runs) == 2
    shift = 5.2 * found["se"][0]  # beyond the normal limit, within Student's for so few
    few.compare("coin", [0], lambda _: found["y"][0] + shift, lambda _: coin, of=[1.0, 0.0], share=1e-9)
    with pytest.raises(points.FigureContradiction):
        few.compare("coin", [0], lambda _: found["y"][0] + 1.3 * shift, lambda _: coin, of=[1.0, 0.0], share=1e-9)


def test_experiments_simulate_each_placement_of_the_own_noise():
    # One client alone gets back its message: at full pull its error is e + l, e, or e + l.
    for noise, expected in (("server", 5.0), ("removed", 2.0), ("both", 5.0)):
        experiment = points.blend_experiment(np.inf, 1, [1], [3.0], 2.0, 7.0, [1.0], noise)
        estimate, error = run(experiment, 100_000, f"test:{noise}").linear([1.0])
        assert abs(estimate - expected) < 4.9 * error
    # Without pull a private silo's error keeps its noise, a FedHDP client's has none.
    for noise, expected in (("server", 2.0), ("removed", 2.0), ("both", 5.0)):
        experiment = points.blend_experiment(0.0, 1, [2], [3.0], 2.0, 7.0, [0.5], noise)
        estimate, error = run(experiment, 100_000, f"test:{noise}").linear([1.0])
        assert abs(estimate - expected) < 4.9 * error


@pytest.mark.parametrize("built", ["privacy_audit"], indirect=True)
def test_audits_prove_no_more_than_is_claimed_but_of_broken_mechanisms(built):
    _, data, _ = built
    assert [case["case"] for case in data["sound"]] == list(audit_cases.CASES)
    for case in data["sound"]:
        assert 0.1 * case["claimed"] < case["proved"] <= case["claimed"]
        if case["claimed_gaussian"] is not None:
            assert 0.1 * case["claimed_gaussian"] < case["proved_gaussian"] <= case["claimed_gaussian"]
    assert len(data["broken"]) == 4
    assert all(case["proved"] > case["claimed"] for case in data["broken"])


def test_an_audit_that_finds_the_opposite_is_refused(monkeypatch):
    module = figures.load("privacy_audit")
    monkeypatch.setattr(module, "profile", lambda *args: None)
    bold = module.BROKEN["Exponential mechanism without the 2"]
    sound = audit_cases.CASES["choice"]
    monkeypatch.setattr(module, "CASES", {"choice": bold})
    with pytest.raises(points.FigureContradiction, match="the audit refutes choice among 100"):
        module.compute(quick=True)
    monkeypatch.setattr(module, "CASES", {"choice": sound})
    monkeypatch.setattr(module, "BROKEN", {"sound": partial(sound, runs=20_000)})
    with pytest.raises(points.FigureContradiction, match="does not see that it is broken: sound"):
        module.compute(quick=True)


def test_claims_of_audits_are_larger_by_renyi_divergences(monkeypatch):
    module, case = figures.load("privacy_audit"), audit_cases.CASES["rows, Poisson"]
    monkeypatch.setattr(module, "ACCOUNTANT", "rdp")
    row = module.audited("rows, Poisson", "title", case, silo_count=2)
    assert row["claimed"] == pytest.approx(2.96, abs=0.01)


def test_pictures_for_screens_are_small(tmp_path):
    data = json.loads(build.build("mr_mtl_gaps", tmp_path, ["png"], quick=True, dpi=150)[-1].read_text())
    small = (tmp_path / "mr_mtl_gaps.png").read_bytes()
    assert small == style.render(figures.load("mr_mtl_gaps").draw(data), "png", "mr_mtl_gaps", 150)
    assert int.from_bytes(small[16:20]) == style.COLUMN * 150
    assert len(small) < len(style.render(figures.load("mr_mtl_gaps").draw(data), "png", "mr_mtl_gaps")) / 5
    assert b"borrowed-strength" in small


@pytest.mark.parametrize("path", sorted((ROOT / "figures" / "gallery").glob("*.png")), ids=lambda path: path.name)
def test_pictures_of_the_gallery_are_small_and_can_be_drawn_again(path):
    assert path.stat().st_size <= 120_000
    assert path.stem in FIGURES or path.stem in ("shrinkage", "hospitals")


def test_files_are_listed_and_formats_chosen(tmp_path, capsys):
    assert main("mr_mtl_risk", "--quick", "--format", "svg", "--out", tmp_path) == 0
    listed = capsys.readouterr()
    assert listed.out.split() == [str(tmp_path / "mr_mtl_risk.svg"), str(tmp_path / "mr_mtl_risk.json")]
    assert listed.err == ""  # quiet when piped
    assert {path.name for path in tmp_path.iterdir()} == {"mr_mtl_risk.svg", "mr_mtl_risk.json"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["opt_out_ponit"], "'opt_out_ponit'; did you mean opt_out_point"),
        (["zzz"], "there are opt_out_regression, "),
        (["mr_mtl_risk", "--format", "gif"], "format 'gif' is not known; choose among svg,png,pdf"),
        (["mr_mtl_risk", "--format", ","], "no format"),
        (["mr_mtl_risk", "--dpi", "0"], "--dpi must lie in 20..2400, got 0"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        main(*arguments, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(import_module("figures.mr_mtl_risk"), "compute", lambda quick: pytest.fail("computed"))
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    with unprivileged(), pytest.raises(OSError, match=r"cannot write into the folder .*locked.*--out"):
        main("mr_mtl_risk", "--out", folder)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot write into the folder .*file.*--out"):
        main("mr_mtl_risk", "--out", tmp_path / "file" / "below")


def test_an_interrupted_write_leaves_no_trace(monkeypatch, tmp_path):
    (tmp_path / "a").write_text("before")
    with pytest.raises(TypeError):
        saving.write_all(tmp_path, {"a": b"after", "b": 0})
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "before"}


def test_the_commands_load_without_heavy_imports():
    heavy = ("matplotlib", "numba", "scipy", "sympy")
    code = f"import figures.commands, sys; print([m for m in {heavy} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert said.stdout.strip() == "[]"
