"""A function for `test_cache` to compile."""


def double(number: int) -> int:
    return 2 * number
