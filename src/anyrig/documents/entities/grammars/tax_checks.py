"""The check of each tax number, by the rules that its country publishes.

Each function takes the number compact and in capitals, in a form that was matched before.
"""

from __future__ import annotations

from anyrig.documents.entities.grammars.digits import luhn, mod_11_10, weighed

_DNI = "TRWAGMYFPDXBNJZSQVHLCKE"
_CIF = "JABCDEFGHI"


def es_dni(number: str) -> bool:
    """Eight digits, or X, Y, Z, K, L, M and seven, and the letter of their remainder by 23."""
    digits = number[:-1].translate(str.maketrans("XYZ", "012", "KLM"))
    return _DNI[int(digits) % 23] == number[-1]


def es_cif(number: str) -> bool:
    """A letter, seven digits, and a check that is a digit or a letter by the sort of body."""
    total = sum(int(digit) for digit in number[2:8:2])
    for digit in number[1:8:2]:
        double = 2 * int(digit)
        total += double // 10 + double % 10
    check = -total % 10
    if number[0] in "PQRSNW":
        return number[8] == _CIF[check]
    if number[0] in "ABEH":
        return number[8] == str(check)
    return number[8] in (str(check), _CIF[check])


def es_any(number: str) -> bool:
    """Whichever of the two it is."""
    return es_cif(number) if number[0] in "ABCDEFGHJNPQRSUVW" else es_dni(number)


def fr_siren(number: str) -> bool:
    """Luhn over nine digits."""
    return luhn(number) and number != "000000000"


def fr_siret(number: str) -> bool:
    """Luhn over the company and over the whole; offices of La Poste by the sum of their digits."""
    if number.startswith("356000000"):
        return luhn(number) or sum(map(int, number)) % 5 == 0
    return fr_siren(number[:9]) and luhn(number)


def fr_tva(number: str) -> bool:
    """A key from the remainder of the company's number by 97; newer keys hold a letter."""
    key, siren = number[:2], number[2:]
    if key.isdigit():
        if siren.startswith("000"):  # Monaco's have no company number of France
            return int(key) == (12 + 3 * (int(siren) % 97)) % 97
        return fr_siren(siren) and int(key) == (12 + 3 * (int(siren) % 97)) % 97
    letters = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
    first, second = letters.find(key[0]), letters.find(key[1])
    if first < 0 or second < 0:
        return False
    both = first * 24 + second - 10 if key[0].isdigit() else first * 34 + second - 100
    return (int(siren) + 1 + both // 11) % 11 == both % 11


def fr_nir(number: str) -> bool:
    """Thirteen digits and 97 less their remainder; Corsica's 2A and 2B count as 19 and 18."""
    body = number[:13].replace("2A", "19").replace("2B", "18")
    return body.isdigit() and 97 - int(body) % 97 == int(number[13:])


def fr_spi(number: str) -> bool:
    """The last three digits are the remainder of the first ten by 511."""
    return int(number[:10]) % 511 == int(number[10:])


def us_ssn(number: str) -> bool:
    """Areas, groups and serials that are given out."""
    area, group, serial = number[:3], number[3:5], number[5:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def us_ein(number: str) -> bool:
    """A campus that gives numbers out."""
    return int(number[:2]) not in (0, 7, 8, 9, 17, 18, 19, 28, 29, 49, 69, 70, 78, 79, 89, 96, 97)


def gb_utr(number: str) -> bool:
    """The first digit checks the other nine."""
    return "21987654321"[weighed(number[1:], (6, 7, 8, 9, 10, 5, 4, 3, 2)) % 11] == number[0]


def gb_vat(number: str) -> bool:
    """Nine digits, the last two checking the rest by 97, with or without 55 more."""
    if number[:2] in ("GD", "HA"):
        return (number[2:] < "500") == (number[0] == "G")
    total = weighed(number[:7], (8, 7, 6, 5, 4, 3, 2)) + int(number[7:9])
    return total % 97 in (0, 42) and int(number[:7]) > 0


def de_steuer_id(number: str) -> bool:
    """ISO 7064; of the first ten digits one stands twice or three times."""
    most = max(number[:10].count(digit) for digit in number[:10])
    return number[0] != "0" and most in (2, 3) and mod_11_10(number)


def it_iva(number: str) -> bool:
    """Luhn over eleven digits."""
    return luhn(number) and number[:7] != "0000000"


def it_codice(number: str) -> bool:
    """Odd places count by a table of their own; the last letter is the remainder by 26."""
    odd = (
        1,
        0,
        5,
        7,
        9,
        13,
        15,
        17,
        19,
        21,
        2,
        4,
        18,
        20,
        11,
        3,
        6,
        8,
        12,
        14,
        16,
        10,
        22,
        25,
        24,
        23,
    )
    total = 0
    for place, character in enumerate(number[:15]):
        value = int(character) if character.isdigit() else ord(character) - 65
        total += value if place % 2 else odd[value]
    return chr(65 + total % 26) == number[15]


def pt_nif(number: str) -> bool:
    """Eight digits weighed 9 to 2, remainder by 11."""
    check = 11 - weighed(number[:8], range(9, 1, -1)) % 11
    return int(number[8]) == (0 if check > 9 else check) and number[0] != "0"


def nl_btw(number: str) -> bool:
    """Nine digits weighed 9 to 2 by 11; since 2020 the whole by 97."""
    from anyrig.documents.entities.grammars.digits import mod_97

    old = weighed(number[:8], range(9, 1, -1)) % 11 == int(number[8])
    return old or mod_97(f"NL{number}") == 1


def be_number(number: str) -> bool:
    """97 less the remainder of the first eight digits."""
    return number[0] in "01" and 97 - int(number[:8]) % 97 == int(number[8:])


def at_uid(number: str) -> bool:
    """U and eight digits, every second doubled."""
    total = 4
    for place, digit in enumerate(number[1:8]):
        double = int(digit) * (2 if place % 2 else 1)
        total += double // 10 + double % 10
    return (10 - total % 10) % 10 == int(number[8])


def lu_tva(number: str) -> bool:
    """The remainder of six digits by 89."""
    return int(number[:6]) % 89 == int(number[6:])


def pl_nip(number: str) -> bool:
    """Nine digits weighed, remainder by 11."""
    return weighed(number, (6, 5, 7, 2, 3, 4, 5, 6, 7)) % 11 == int(number[9])


def dk_cvr(number: str) -> bool:
    """Eight digits whose weighed sum is a multiple of 11."""
    return number[0] != "0" and weighed(number, (2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


def fi_alv(number: str) -> bool:
    """Eight digits whose weighed sum is a multiple of 11."""
    return weighed(number, (7, 9, 10, 5, 8, 4, 2, 1)) % 11 == 0


def se_moms(number: str) -> bool:
    """Luhn over ten digits; the last two are 01 to 94."""
    return luhn(number[:10]) and 1 <= int(number[10:]) <= 94


def el_afm(number: str) -> bool:
    """Powers of two, remainder by 11 and then by 10."""
    total = weighed(number[:8], (256, 128, 64, 32, 16, 8, 4, 2))
    return total % 11 % 10 == int(number[8]) and number != "000000000"


def ie_vat(number: str) -> bool:
    """Seven digits weighed 8 to 2, a letter of the remainder by 23, perhaps one more letter."""
    more = (ord(number[8]) - 64) * 9 if len(number) > 8 and number[8] != "W" else 0
    total = weighed(number[:7], range(8, 1, -1)) + more
    return "WABCDEFGHIJKLMNOPQRSTUV"[total % 23] == number[7]


def ch_uid(number: str) -> bool:
    """Eight digits weighed, eleven less the remainder by 11."""
    check = -weighed(number, (5, 4, 3, 2, 7, 6, 5, 4)) % 11
    return check < 10 and check == int(number[8])
