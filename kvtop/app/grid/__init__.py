"""How a pool becomes a grid: its shape (which block is where), its codes (what each cell is to show, as integers), its
ink (codes → strips). NumPy up to the codes; only the ink knows a palette. The widget is ``widgets/pool_grid.py``."""
