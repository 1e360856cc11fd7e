"""Arrays share large pages without overlap; the garbage collector pauses while a model is built."""

import gc
import mmap
import threading
import weakref

import numpy as np

from kbert.model import collector
from kbert.model.large_pages import LargePages


def test_arrays_do_not_overlap_and_are_aligned_to_64_bytes():
    memory = LargePages()
    shapes = [(13, 7), (), (99, 5, 3), (0, 4), (3_000, 3_001), (1,), (2**23 + 1,), (17,)]
    arrays = [memory.empty(shape) for shape in shapes]
    for number, array in enumerate(arrays):
        array[...] = number
    for number, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
        assert array.shape == shape and array.dtype == "float32"
        assert array.flags.writeable and array.flags.c_contiguous
        assert not array.size or array.ctypes.data % 64 == 0
        assert (array == number).all()


def test_threads_get_separate_memory():
    memory, found = LargePages(), []

    def fill(number: int):
        for size in range(1, 200):
            array = memory.empty((size, 31))
            array[...] = number * 1000 + size
            found.append((array, number * 1000 + size))

    threads = [threading.Thread(target=fill, args=(number,)) for number in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 7 * 199
    assert all((array == value).all() for array, value in found)


def test_array_outlives_its_allocator():
    array = LargePages().empty((301, 7))
    array[...] = 3
    gc.collect()
    np.testing.assert_array_equal(array, np.full((301, 7), 3, "float32"))


def test_garbage_collector_is_restored_after_a_pause():
    assert gc.isenabled()
    with collector.paused():
        assert not gc.isenabled()
        with collector.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    try:
        with collector.paused():
            raise ValueError
    except ValueError:
        assert gc.isenabled()
    gc.disable()
    try:
        with collector.paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_objects_made_in_a_pause_are_old_and_still_collected():
    class Node:
        pass

    gc.unfreeze()
    with collector.paused():
        node = Node()
        node.itself = node
    assert gc.get_freeze_count() == 0
    old = {id(one) for one in gc.get_objects(generation=2)}
    assert id(node) in old
    watched = weakref.ref(node)
    del node
    assert watched() is not None
    gc.collect()
    assert watched() is None


def test_discarded_objects_are_freed_while_paused(monkeypatch):
    class Node:
        pass

    monkeypatch.setattr(collector, "_MOST", 10_000)
    gc.unfreeze()
    gc.collect()
    watched = []
    for _ in range(25):  # each a fifth of what may go unseen, in a circle
        with collector.paused():
            nodes = [Node() for _ in range(2_000)]
            for one, other in zip(nodes, nodes[1:] + nodes[:1], strict=True):
                one.next = other
        watched.append(weakref.ref(nodes[0]))
        del nodes, one, other
        assert sum(node() is not None for node in watched) < 12


def test_frozen_objects_stay_frozen():
    gc.freeze()
    try:
        assert gc.get_freeze_count() > 0
        with collector.paused():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_kernel_without_large_pages_gives_small_ones(monkeypatch):
    class Memory(mmap.mmap):
        def madvise(self, *_):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr("kbert.model.large_pages.mmap.mmap", Memory)
    array = LargePages().empty((31, 17))
    array[...] = 2
    assert array.sum() == 2 * 31 * 17 and array.ctypes.data % 64 == 0
