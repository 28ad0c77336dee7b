"""Tests of the room boundaries."""
