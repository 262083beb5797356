"""Check digits: the public rules that tell a number from one with a slip in it."""

from __future__ import annotations

from collections.abc import Sequence


def luhn(digits: str) -> bool:
    """Every second digit from the right is doubled; the sum of all digits ends in 0."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (2 if place % 2 else 1)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def mod_97(characters: str) -> int:
    """The remainder of ISO 7064 mod 97-10, with letters as 10 to 35."""
    rest = 0
    for character in characters:
        number = int(character, 36)
        rest = (rest * (100 if number > 9 else 10) + number) % 97
    return rest


def mod_11_10(digits: str) -> bool:
    """ISO 7064 mod 11,10: the last digit is the check."""
    product = 10
    for digit in digits[:-1]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


def weighed(digits: str, weights: Sequence[int]) -> int:
    """The sum of digits, each times its weight."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))
