"""Tools for code compiled with numba, shared by the loss, the net and the search."""
