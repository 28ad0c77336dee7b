from pathlib import Path

import pytest

from speechctc.config.load import MAX_CHARACTERS, load_config, override, parse_yaml
from speechctc.core.errors import InputError

ALIASES = "a0: &a0 {x: 1, y: 2}\n" + "".join(f"a{k}: &a{k} {{x: *a{k - 1}, y: *a{k - 1}}}\n" for k in range(1, 40))
MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}]}}\n" for k in range(1, 40))
CHAIN = "a0: &a0 [1]\n" + "".join(f"a{k}: &a{k} [*a{k - 1}]\n" for k in range(1, 1500))
BOMBS: dict[str, str | bytes] = {
    "aliases": ALIASES,
    "merges": MERGES,
    "chain": CHAIN,
    "deep": "a: " + "[" * 100_000,
    "deep blocks": "".join(" " * k + "a:\n" for k in range(400)),
    "within itself": "a: &a [*a]",
    "digits": f"train: {{seed: {'9' * 5000}}}",
    "date": "a: 2026-99-99",
    "long": "#" * (MAX_CHARACTERS + 1),
    "bytes": b"a: \xff",
    "control": "a: \x1b[2J",
    "key": "{[1, 2]: 3}",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_config_that_would_never_end_is_one_line(tmp_path: Path, name: str) -> None:
    path, text = tmp_path / "c.yaml", BOMBS[name]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as raised:
        load_config(path)
    said = str(raised.value)
    assert said.startswith(str(path)) and "\n" not in said and "\x1b" not in said and len(said) < 1000


@pytest.mark.parametrize("value", ["[" * 5000, "9" * 5000, "&a [*a]", "2026-99-99"])
def test_so_is_a_setting(value: str) -> None:
    with pytest.raises(InputError, match="not YAML") as raised:
        override({}, [f"train.seed={value}"])
    assert len(str(raised.value)) < 1000


def test_aliases_and_merges_are_read_where_they_are_few() -> None:
    text = "a: &a {x: 1}\nb: &b {z: 3}\nc: *a\nd: {<<: *a, <<: *b, x: 2}\n"  # merge keys may repeat, and be overridden
    assert parse_yaml(text, "here", "mend it") == {"a": {"x": 1}, "b": {"z": 3}, "c": {"x": 1}, "d": {"x": 2, "z": 3}}


def test_a_long_chain_of_bases_is_one_line(tmp_path: Path) -> None:
    for number in range(1200):
        (tmp_path / f"{number}.yaml").write_text(f"base: ./{number + 1}.yaml\n")
    with pytest.raises(InputError, match="a chain of more than 20 bases"):
        load_config(tmp_path / "0.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train: {epochs: 5}\ndata: {dir: x}\ntrain: {lr: 0.002}\n", "line 3: the key 'train' again, which line 1 has"),
        ("base: demo\ntrain:\n  lr: 1\n  epochs: 5\n  lr: 2\n", "line 5: the key 'lr' again, which line 3 has"),
        ("a: [{b: 1, 'b': 2}]", "line 1: the key 'b' again"),
    ],
)
def test_a_key_given_twice_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match=said) as raised:
        load_config(tmp_path / "c.yaml")
    assert "\n" not in str(raised.value)
