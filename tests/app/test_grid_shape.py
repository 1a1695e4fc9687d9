"""The arithmetic of the grid: every block has one place, every place one block, whatever size and zoom."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kvtop.app.grid.shape import Shape, Zoom, shape_for

sizes = st.tuples(st.integers(8, 300), st.integers(3, 100))


@given(st.integers(1, 1_000_000), sizes)
def test_left_alone_the_whole_pool_is_in_sight(num_blocks: int, size: tuple[int, int]) -> None:
    shape = shape_for(num_blocks, *size)
    assert shape.height <= size[1]
    assert shape.gutter + shape.columns * shape.cell_width <= size[0]
    assert shape.rows * shape.blocks_per_row >= num_blocks


@given(st.integers(1, 20_000), sizes, st.sampled_from(Zoom), st.data())
def test_a_block_is_found_at_its_own_place(
    num_blocks: int, size: tuple[int, int], zoom: Zoom, data: st.DataObject
) -> None:
    shape = shape_for(num_blocks, *size, wish=zoom)
    block = data.draw(st.integers(0, num_blocks - 1))
    row = shape.row_of(block)
    within = block - row * shape.blocks_per_row
    column = within // shape.per_cell % shape.columns
    found = shape.block_at(shape.gutter + column * shape.cell_width, row * shape.cell_height)
    first = block - block % shape.per_cell
    assert found == (first - shape.columns if zoom == Zoom.HALF and within >= shape.columns else first)


@given(st.integers(1, 20_000), sizes)
def test_there_is_no_block_beside_the_grid(num_blocks: int, size: tuple[int, int]) -> None:
    shape = shape_for(num_blocks, *size)
    assert shape.block_at(shape.gutter + shape.columns * shape.cell_width, 0) is None
    assert shape.block_at(shape.gutter - 1, 0) is None
    assert shape.block_at(shape.gutter, shape.height) is None


def test_larger_pools_get_smaller_cells() -> None:
    zooms = [shape_for(blocks, 66, 22).zoom for blocks in (40, 150, 600, 1_300, 2_600, 100_000, 1_000_000)]
    assert zooms == [Zoom.CARD, Zoom.TILE, Zoom.WIDE, Zoom.CELL, Zoom.HALF, Zoom.GROUP, Zoom.GROUP]


def test_the_cursor_stops_at_the_ends_and_keeps_its_column() -> None:
    shape = Shape(Zoom.CELL, 100, 16, 1, 0)
    assert shape.moved(0, -1, 0) == 0
    assert shape.moved(99, 1, 0) == 99
    assert shape.moved(5, 0, 1) == 21
    assert shape.moved(95, 0, 1) == 95
    assert shape.moved(3, 0, -1) == 3
    assert Shape(Zoom.GROUP, 100, 5, 4, 0).moved(8, 1, 1) == 32


def test_row_numbers_are_round_where_that_costs_little() -> None:
    assert shape_for(1024, 66, 22).columns % 8 == 0
    assert shape_for(1024, 66, 22).gutter == 5
    assert shape_for(64, 30, 9).gutter == 0
