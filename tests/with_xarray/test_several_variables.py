"""Datasets of several predictions, outcomes of some of them, and units that differ."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

import kuq
from kuq.cli import main
from kuq.files.options import in_python

xr = pytest.importorskip("xarray")
pytest.importorskip("h5netcdf")


def field(seed, units, **sizes):
    rng = np.random.default_rng(seed)
    shape = sizes or {"number": 4, "time": 12}
    return xr.DataArray(rng.normal(size=tuple(shape.values())), dims=tuple(shape)).assign_attrs(
        units=units
    )


@pytest.fixture
def data():
    return xr.Dataset({"t2m": field(1, "K"), "tp": field(2, "mm")})


def test_variables_and_pairs_are_decomposed_each(data):
    observed = data.mean("number").assign_attrs(units="K").rename(t2m="t2m_obs")[["t2m_obs"]]
    u = data.merge(observed).kuq.decompose("crps")
    assert u.attrs["not_used"] == "t2m_obs"
    pairs = xr.Dataset(
        {
            "t2m_mean": data.t2m,
            "t2m_std": 0 * data.t2m + 2.0,
            "tp_mean": data.tp,
            "tp_var": 0 * data.tp + 9.0,
        }
    )
    v = pairs.kuq.decompose("crps")
    for name, scale in (("t2m", 2.0), ("tp", 3.0)):
        values = data[name].values
        points = kuq.decompose(kuq.Ensemble(kuq.Point(values)), kuq.CRPS())
        np.testing.assert_allclose(u[f"{name}_total"], points.total, rtol=1e-12)
        assert "unknown" in u[f"{name}_total"].attrs["note"]
        normals = kuq.decompose(kuq.Ensemble(kuq.Normal(values, scale)), kuq.CRPS())
        for part in ("total", "aleatoric", "epistemic"):
            np.testing.assert_allclose(v[f"{name}_{part}"], normals[part], rtol=1e-12)
    alone = pairs[["tp_mean", "tp_var"]].kuq.decompose("crps")
    np.testing.assert_array_equal(alone["epistemic"], v["tp_epistemic"])
    outcomes = {name: data[name].isel(number=0) for name in data.data_vars}
    scores = data.kuq.score(outcomes, "crps")
    np.testing.assert_array_equal(scores["tp"], data.tp.kuq.score(outcomes["tp"], "crps"))
    with pytest.raises(kuq.ParameterError, match="outcome has no 'tp'"):
        data.kuq.score({"t2m": outcomes["t2m"]}, "crps")


def test_one_of_two_variables_is_observed(data, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    observed = data.t2m.mean("number")
    data.assign(t2m_obs=observed, other=observed).to_netcdf("p.nc", engine="h5netcdf")
    for target in ("t2m_obs", "{}_obs"):
        assert main(["decompose", "p.nc", "--target", target]) == 0
        said = capsys.readouterr().out
        assert "judged by 't2m_obs', 12 outcomes" in said
        assert "not judged: what happened is not known of 'tp'" in said
    assert main(["decompose", "p.nc", "--points", "t2m", "--target", "{}_obs"]) == 0
    assert main(["decompose", "p.nc", "--target", "other"]) == 2
    assert "of which of 't2m', 'tp'" in capsys.readouterr().err
    path = kuq.report(dict(data.data_vars), y={"t2m": observed}, path="p.html")
    assert "not judged" in path.read_text()
    with pytest.raises(kuq.ParameterError, match=r"y: of which of .*say so: y=\{name: outcome\}"):
        kuq.report(dict(data.data_vars), y=observed.rename("other"), path="p.html")
    ensemble = kuq.Ensemble(kuq.Point(data.t2m.values))
    with pytest.raises(kuq.ParameterError, match="y has outcomes of 'A', and predicted are 'a'"):
        kuq.report({"a": ensemble}, y={"A": observed.values}, path="q.html")


@pytest.mark.parametrize(
    ("units", "same"),
    [("kelvin", True), (None, True), ("degC", False), ("mK", False)],
)
def test_outcomes_are_in_the_unit_of_predictions(units, same, data, tmp_path, capsys):
    outcome = data.t2m.mean("number").assign_attrs({} if units is None else {"units": units})
    path = tmp_path / "p.nc"
    data[["t2m"]].assign(seen=outcome).to_netcdf(path, engine="h5netcdf")
    assert main(["decompose", str(path), "--target", "seen"]) == (0 if same else 2)
    calls = (
        lambda: data.t2m.kuq.score(outcome, "crps"),
        lambda: kuq.report(data.t2m, y=outcome, path=tmp_path / "p.html"),
    )
    for call in calls:
        if same:
            call()
        else:
            with pytest.raises(kuq.ParameterError, match=f"in 'K' and .* in '{units}' are not"):
                call()


def test_units_are_the_same_however_they_are_written():
    from kuq.xarray.units import _factors

    for spelled in ("m/s", "m s**-1", "m s^-1", "m.s-1", "metre second-1", "m s⁻¹"):
        assert _factors(spelled) == _factors("m s-1"), spelled
    for other in ("km/h", "m s-2", "m", "s-1"):
        assert _factors(other) != _factors("m s-1"), other


FILES = ("grid_source", "grids", "levels", "roles", "grid_result", "grid_cells")


@pytest.mark.parametrize("name", FILES)
def test_no_option_of_the_command_line_is_left_in_words_of_python(name):
    """Every text of what a page of named fields is made by, with a name for each gap."""
    import kuq.files

    tree = ast.parse(Path(kuq.files.__file__).with_name(f"{name}.py").read_text(encoding="utf-8"))
    inside = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(v.value if isinstance(v, ast.Constant) else "it" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = "" if id(node) in inside else node.value
        else:
            continue
        text = text.replace("--it", "--points")  # the name of an option fills the gap
        if re.fullmatch("--[a-z]*", text) is None:
            assert re.search(r"--[a-z]", in_python(text)) is None, text


def test_a_mask_and_an_event_are_told_what_propagate_does(data, tmp_path, capsys):
    path = tmp_path / "p.nc"
    data.t2m.where(data.time > 3).to_dataset(name="t2m").to_netcdf(path, engine="h5netcdf")
    assert main(["decompose", str(path), "--event", "time", "--nan", "raise"]) == 2
    assert "--nan propagate leaves out cells that are missing in every" in capsys.readouterr().err
