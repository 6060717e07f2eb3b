"""Tensors side by side in large pages."""

import mmap

import pytest
import torch

from spork_demo.models import large_pages
from spork_demo.models.large_pages import CHUNK, LINE, PAGE, LargePages


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_copies_say_what_was_copied_and_lie_apart(dtype):
    memory = LargePages()
    given = [torch.arange(-n, n).to(dtype).view(2, -1) for n in (1, 7, 100, 3)]
    copies = [memory.copy(each) for each in given]
    for wanted, got in zip(given, copies, strict=True):
        assert got.dtype == dtype and got.is_contiguous()
        assert torch.equal(got, wanted)
        assert got.data_ptr() % LINE == 0
    places = [each.data_ptr() for each in copies]
    assert places == sorted(set(places))


def test_strides_are_not_copied():
    given = torch.arange(12.0).view(3, 4).T
    got = LargePages().copy(given)
    assert got.is_contiguous() and torch.equal(got, given)


def test_what_fits_shares_a_chunk_and_what_does_not_has_its_own():
    memory = LargePages()
    first, second = memory.empty((8,), torch.int8), memory.empty((8,), torch.int8)
    assert second.data_ptr() == first.data_ptr() + LINE
    large = memory.empty((CHUNK + 1,), torch.int8)
    assert len(large) == CHUNK + 1
    assert large.data_ptr() % PAGE == first.data_ptr() % PAGE == 0
    large[-1] = 3
    assert large[-1] == 3


def test_tensors_outlive_where_they_were_made():
    tensor = LargePages().copy(torch.arange(1000))
    assert torch.equal(tensor, torch.arange(1000))


def test_an_empty_tensor_needs_no_memory():
    assert LargePages().empty((0, 3), torch.float32).shape == (0, 3)


def test_a_system_without_large_pages_gives_its_usual_ones(monkeypatch):
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    given = torch.arange(50.0)
    assert torch.equal(LargePages().copy(given), given)


def test_a_kernel_that_refuses_them_is_no_matter(monkeypatch):
    class Refusing(mmap.mmap):
        def madvise(self, *_):
            raise OSError("Invalid argument")

    if not hasattr(mmap, "MADV_HUGEPAGE"):
        monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 14, raising=False)
    monkeypatch.setattr(large_pages.mmap, "mmap", Refusing)
    given = torch.arange(50.0)
    assert torch.equal(LargePages().copy(given), given)
