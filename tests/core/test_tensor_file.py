"""Weights in 8 bits: each is near what it was, rounding twice changes nothing more, and scales are checked."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from speechctc.core.tensor_file import SCALE, Arrays, load_arrays, load_weights, rounded, save_tensors, shapes


def weights() -> Arrays:
    rng = np.random.default_rng(3)
    matrix = (rng.normal(size=(7, 3, 1, 5)) * 10.0 ** rng.integers(-6, 5, (7, 1, 1, 1))).astype(np.float32)
    matrix[4] = 0
    return {"conv.weight": matrix, "conv.bias": rng.normal(size=7).astype("f4"), "one": np.full((), 0.1, "f4")}


def test_each_weight_is_within_half_a_step_of_its_row(tmp_path: Path) -> None:
    before = weights()
    save_tensors(tmp_path / "a", rounded(before))
    assert shapes(tmp_path / "a") == {name: each.shape for name, each in before.items()}
    after, steps = load_weights(tmp_path / "a"), np.abs(before["conv.weight"]).max((1, 2, 3), keepdims=True) / 127
    assert (np.abs(after["conv.weight"] - before["conv.weight"]) <= 0.5001 * steps).all()
    np.testing.assert_allclose(after["conv.bias"], before["conv.bias"], rtol=1e-3)
    assert (tmp_path / "a").stat().st_size < 600


def test_rounding_again_changes_nothing(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", rounded(weights()))
    once = load_weights(tmp_path / "a")
    save_tensors(tmp_path / "b", rounded(once))
    for name, each in load_weights(tmp_path / "b").items():
        np.testing.assert_allclose(each, once[name], rtol=1e-6)


def test_a_changed_bit_is_noticed_and_files_of_other_programs_are_read(tmp_path: Path) -> None:
    arrays = weights() | {"none": np.zeros((0, 3), "f4"), "flags": np.array([True, False])}
    save_tensors(tmp_path / "a", arrays, {"about": "x"})
    for name, each in load_arrays(tmp_path / "a").items():
        assert np.array_equal(each, arrays[name])
    whole = (tmp_path / "a").read_bytes()
    (tmp_path / "b").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    (tmp_path / "c").write_bytes(whole.replace(b'"conv.bias"', b'"conv.bios"'))
    for name in "bc":
        with pytest.raises(ValueError, match=f"{name}: its checksum does not match"):
            load_arrays(tmp_path / name)
    save_file(arrays, tmp_path / "d")
    assert load_arrays(tmp_path / "d").keys() == arrays.keys()


FACTORS = [np.ones(6), np.ones((7, 1)), np.ones(7, int), np.full(7, np.inf), np.full(7, np.nan), -np.ones(7)]


@pytest.mark.parametrize("scale", [each.astype("i4" if each.dtype.kind == "i" else "f4") for each in FACTORS])
def test_factors_that_are_missing_or_of_another_kind_are_refused(tmp_path: Path, scale: NDArray[np.float32]) -> None:
    save_tensors(tmp_path / "a", rounded(weights()) | {"conv.weight" + SCALE: scale})
    with pytest.raises(ValueError, match=r"no factors|infinite"):
        load_weights(tmp_path / "a")
    save_tensors(tmp_path / "a", {"conv.weight": rounded(weights())["conv.weight"]})
    with pytest.raises(ValueError, match="no factors"):
        load_weights(tmp_path / "a")
