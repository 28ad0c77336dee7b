"""Compiled code for CPUs: what the loss, the net and the search share."""
