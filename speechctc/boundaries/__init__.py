"""Refines the times of phones in a known order: a small net on frames of 5 ms, and a lattice over the boundaries."""
