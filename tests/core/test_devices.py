"""Precisions by device, and giving the C library's free memory back to the system."""

from __future__ import annotations

import ctypes
import platform

import pytest
import torch

from speechctc.core.devices import choose_precision, give_back_memory, resident_memory

BLOCK, BLOCKS = 8192, 8192  # bytes, and how many: 64 MiB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library's heap is told to shrink")
def test_what_lies_free_between_used_blocks_goes_back() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    blocks = [libc.malloc(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    kept = blocks[::64] + blocks[-1:]  # the holes between them are what the heap cannot give back by itself
    for block in set(blocks) - set(kept):
        libc.free(block)
    before = resident_memory()
    give_back_memory()
    assert before - resident_memory() > 0.8 * BLOCK * BLOCKS
    for block in set(kept):
        libc.free(block)


@pytest.mark.parametrize("has", [{"amx_bf16"}, {"avx512_bf16"}, set[str]()])
def test_auto_is_bfloat16_where_the_hardware_multiplies_it(has: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    able = bool(has)
    found = {name: name in has for name in ("avx512_bf16", "amx_bf16")} | {"avx512_f": True}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: able and not including_emulation)
    for name in ("cpu", "cuda"):
        device = torch.device(name)
        assert choose_precision(device, "auto") == ("bfloat16" if able else "float32")
        assert choose_precision(device, "float16") == "float16"
