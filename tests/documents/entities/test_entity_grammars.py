"""What the grammars find: tables of what is written and what it means."""

from __future__ import annotations

import pytest

from anyrig.documents.entities.entity import Entity
from anyrig.documents.entities.finder import find_by_grammar, merge
from anyrig.documents.entities.plain_text import build_plain_text


def found(text: str, language: str = "en", *, unchecked: bool = False) -> list[Entity]:
    entities = merge(find_by_grammar(build_plain_text(text, language)), unchecked=unchecked)
    assert all(text[one.start : one.end] == one.text for one in entities)
    return entities


# language | text before | the thing | text after | what it means
DATES = """
en|on |14 July 2024|.|2024-07-14
en|by |July 14th|, please|--07-14
en|the |3rd of May|.|--05-03
en||2024-07-14|T10:00|2024-07-14
en||03/04/2024| at noon|
en-GB||03/04/2024| at noon|2024-04-03
en-US||03/04/2024| at noon|2024-03-04
en|from |3-5 May 2024|.|2024-05-03/2024-05-05
en|from |30 December to 2 January 2025|.|2024-12-30/2025-01-02
en|in |May 2024|.|2024-05
en|since |1998|.|1998
fr|le |1er mai 2020| au soir|2020-05-01
fr|le |14 févr. 2024|.|2024-02-14
es|el |14 de julio de 2024|.|2024-07-14
es|el |1º de mayo|.|--05-01
es|el |3/2/24|.|2024-02-03
en|the |1990s| were loud|1990/1999
en|back in the |'80s|, when|1980/1989
fr|les |années soixante-dix|.|1970/1979
es|en los |años noventa| y|1990/1999
en|from the |3rd to the 5th of May 2024|.|2024-05-03/2024-05-05
en|the |third to the fifth of May 2024|.|2024-05-03/2024-05-05
en|between |3 and 5 May|.|--05-03/--05-05
en|on the |3rd and the 5th of May 2024|.|2024-05-03, 2024-05-05
en||May 3-5, 2024|.|2024-05-03/2024-05-05
en||May 3 and 5, 2024|.|2024-05-03, 2024-05-05
en||May 5-June 7, 2024|.|2024-05-05/2024-06-07
en|from |May 5 to June 7, 2024|.|2024-05-05/2024-06-07
en||Dec. 28-Jan. 3, 2024|.|2023-12-28/2024-01-03
en|from |December 28, 2023, to January 3, 2024|, and|2023-12-28/2024-01-03
en||3 May–5 June 2024|.|2024-05-03/2024-06-05
en||28 December 2023 to 3 January|.|2023-12-28/2024-01-03
en|from |Monday 3 to Friday 7 June 2024|.|2024-06-03/2024-06-07
en||May–June 2024|.|2024-05/2024-06
en|between |November and February 2025|.|2024-11/2025-02
en||May 2023-June 2024|.|2023-05/2024-06
en||May 5 to 7 June 2024|.|2024-05-05/2024-06-07
en-GB||12/05/2024 - 14/05/2024|.|2024-05-12/2024-05-14
en|between |2024-05-12 and 2024-06-14|.|2024-05-12/2024-06-14
fr|entre le |3 et le 5 mai 2024|.|2024-05-03/2024-05-05
fr|du |3 mai au 5 juin 2024|.|2024-05-03/2024-06-05
fr|du |28 décembre 2023 au 3 janvier 2024|.|2023-12-28/2024-01-03
fr|du |lundi 3 au vendredi 7 juin 2024|.|2024-06-03/2024-06-07
fr|de |mai à juin 2024|.|2024-05/2024-06
fr|du |12/05 au 14/06/2024|.|2024-05-12/2024-06-14
es|desde el |3 hasta el 5 de mayo de 2024|.|2024-05-03/2024-05-05
es|entre el |3 y el 5 de mayo de 2024|.|2024-05-03/2024-05-05
es|del |3 de mayo al 5 de junio de 2024|.|2024-05-03/2024-06-05
es|del |28 de diciembre de 2023 al 3 de enero de 2024|.|2023-12-28/2024-01-03
es|de |mayo a junio de 2024|.|2024-05/2024-06
es|del |lunes 3 al viernes 7 de junio de 2024|.|2024-06-03/2024-06-07
de|vom |03.05.2024 bis 05.06.2024|.|2024-05-03/2024-06-05
de||03.05.-05.06.2024|.|2024-05-03/2024-06-05
de||3.–5.5.2024|.|2024-05-03/2024-05-05
de||28.12.–3.1.2025|.|2024-12-28/2025-01-03
de|vom |3. bis zum 5. Oktober 2024|.|2024-10-03/2024-10-05
de|zwischen dem |3. und dem 5. März 2024|.|2024-03-03/2024-03-05
it|il |14 luglio 2024| alle|2024-07-14
it|il |1º maggio 2020|.|2020-05-01
it|dal |3 al 5 maggio 2024|.|2024-05-03/2024-05-05
it|entro il |03/04/2024|.|2024-04-03
it|in |gennaio 2023|.|2023-01
pt|em |14 de julho de 2024|.|2024-07-14
pt||3 de março|.|--03-03
pt|de |3 de maio a 5 de junho de 2024|.|2024-05-03/2024-06-05
nl|op |14 juli 2024|.|2024-07-14
nl|op |3 maart 2021|.|2021-03-03
pl|dnia |14 lipca 2024| r.|2024-07-14
cs|dne |14. července 2024|.|2024-07-14
sv|den |3 maj 2024|.|2024-05-03
fi||14. heinäkuuta 2024||2024-07-14
tr||14 Temmuz 2024||2024-07-14
ro|la |14 iulie 2024|.|2024-07-14
ru||14 июля 2024| г.|2024-07-14
uk||14 липня 2024||2024-07-14
el||14 Ιουλίου 2024||2024-07-14
hu||2024. július 14.||2024-07-14
ja||2024年7月14日|に|2024-07-14
"""
MONEY = """
en||$1,234.56||1234.56 USD
en||£3m| more|3000000 GBP
en||US$ 5.5 million||5500000 USD
en||two hundred dollars||200 USD
en|about |a million pounds||1000000 GBP
en||CHF 20.-||20 CHF
es||medio millón de euros||500000 EUR
en||a quarter of a million dollars||250000 USD
en||two and a half million dollars| more|2500000 USD
en||two hundred dollars and 99 cents|.|200.99 USD
es||un millón y medio de euros||1500000 EUR
es||12 euros con 50 céntimos|.|12.5 EUR
fr||un million et demi d'euros||1500000 EUR
fr||douze euros cinquante|.|12.5 EUR
fr||5 euros| 20 personnes|5 EUR
fr||1\u202f234,56\u00a0€||1234.56 EUR
fr||1,5 million d'euros||1500000 EUR
fr||quatre-vingt-dix mille euros||90000 EUR
fr||3 M€||3000000 EUR
fr||12€50||12.5 EUR
es||1.234,56 €||1234.56 EUR
es||dos mil millones de dólares||2000000000 USD
es||$1,500.00 MXN||1500.00 MXN
es||15.000 pesos||
en||3 billion dollars||3000000000 USD
en||two trillion five hundred billion dollars||2500000000000 USD
en||5 hundred million dollars||500000000 USD
fr||3 trillions d'euros||3000000000000000000 EUR
fr||1 quadrillion d'euros||1000000000000000000000000 EUR
fr||trois mille milliards d'euros||3000000000000 EUR
fr||deux billions cinq cents milliards d'euros||2500000000000 EUR
es||3 billones de euros||3000000000000 EUR
es||dos trillones de dólares||2000000000000000000 USD
es||dos billones quinientos mil millones de euros||2500000000000 EUR
es||3 millardos de euros||3000000000 EUR
it||1.234,56 €||1234.56 EUR
it||12 milioni di euro||12000000 EUR
it||300 dollari||300 USD
it||20 sterline||20 GBP
pt||R$ 1.234,56||1234.56 BRL
pt||3 milhões de euros||3000000 EUR
pt||50 reais||50 BRL
de||1.234,56 Euro||1234.56 EUR
de||2,5 Millionen Euro||2500000 EUR
de||30 Franken||30 CHF
nl||1.234,56 euro||1234.56 EUR
pl||1 234,56 zł||1234.56 PLN
pl||20 złotych||20 PLN
cs||500 korun||500 CZK
sv||200 svenska kronor||200 SEK
ru||500 рублей||500 RUB
"""
PERCENT = """
en||12.5 %||12.5%
en||ten per cent||10%
fr||12,5%||12.5%
fr||douze pour cent||12%
es|un |cinco por ciento||5%
de||12,5 Prozent||12.5%
it||12,5 per cento||12.5%
"""
PHONES = """
en||+44 20 7946 0958||+442079460958
en||(212) 555-0123||+12125550123
en|call |020 7946 0958||+442079460958
en|Fax: |5551234||
fr||+33 (0)1 23 45 67 89||+33123456789
fr||0033 6 12 34 56 78||+33612345678
es||91 234 56 78||+34912345678
es|móvil |612345678||+34612345678
it||06 1234 5678||+390612345678
it|cellulare |333 1234567||+393331234567
pt|Telefone: |212 345 678||+351212345678
de||030 123456||+4930123456
de|Tel. |0171 2345678||+491712345678
nl||020 123 4567||+31201234567
pl|tel. |22 123 45 67||+48221234567
es-MX||55 1234 5678||+525512345678
"""
MAIL = """
en|to |a.b+c@mail.example.co.uk|.|a.b+c@mail.example.co.uk
en|mailto:|me@site.org|?subject=x|me@site.org
fr|« |élodie@exemple.fr| »|élodie@exemple.fr
"""
IBAN = """
en||GB29 NWBK 6016 1331 9268 19| now|GB29NWBK60161331926819
en||gb82west12345698765432|.|GB82WEST12345698765432
fr||FR14 2004 1010 0505 0001 3M02 606|.|FR1420041010050500013M02606
es|IBAN:|ES91-2100-0418-4502-0005-1332|.|ES9121000418450200051332
"""
TAX = """
es|NIF |12345678Z|.|12345678Z
es||X1234567L|.|X1234567L
es||A58818501|.|A58818501
es|DNI |12.345.678-Z|.|12345678Z
fr|SIREN |732 829 320|.|732829320
fr||FR 83 404 833 048|.|FR83404833048
fr||2 55 08 14 168 025 38|.|255081416802538
en|EIN |91-1144442|.|911144442
en|SSN |536-90-4399|.|536904399
en||GB 980 7806 84|.|GB980780684
en||DE136695976|.|DE136695976
en||NL004495445B01|.|NL004495445B01
en|CF |RSSMRA85T10A562S|.|RSSMRA85T10A562S
"""
CARDS = """
en||4111 1111 1111 1111|.|4111111111111111
en|amex |3782 822463 10005|.|378282246310005
"""
TABLES = {"date": DATES, "money": MONEY, "percent": PERCENT, "phone": PHONES, "email": MAIL,
          "iban": IBAN, "tax": TAX, "card": CARDS}  # fmt: skip
ROWS = [(kind, *row.split("|")) for kind, rows in TABLES.items() for row in rows.split("\n") if row]


def test_found_where_it_stands_with_what_it_means() -> None:
    wrong = []
    for kind, language, before, thing, after, value in ROWS:
        entities = found(before + thing + after, language)
        expected = [(kind, thing, len(before), value)]
        if [(one.kind, one.text, one.start, one.value) for one in entities] != expected or (
            entities[0].valid is False
        ):
            wrong.append((language, before + thing + after, entities))
    assert wrong == []


NOTHING = """
en|31/02/2024 and 31 February 2024 are in no calendar
en|Section 5 may be read; it may rain on the march
en|He lost 10 pounds and bought 5 pounds of sugar
en|IP 192.168.1.254, version 1.2.2024, ISBN 978-3-16-148410-0
en|a@b, @x.com, x@.com, x..y@z.com, git@github.com:org/repo.git, https://u:p@host.com/
en|a score of 3-2, a ratio of 16:9, pages 12-14, 3/4 of it, 24/7
en|The order 5551234567 and part no. 612-345-678-9
en|sort code 12-10-56
en|foo%20bar and 100%25
fr|rue du 4 Septembre, il a lu douze livres et vu deux cents films
fr|la référence 0612345678, la loi 2004-575, le 30 février
es|el hospital 12 de Octubre, el pedido 612345678, la ley 39/2015
es|una ciudad de 612 345 678 habitantes
es|el DNI 12345678A y la cuenta ES91 2100 0418 4502 0005 1333
en|card 4111 1111 1111 1112, GB29 NWBK 6016 1331 9268 18, IBAN GB29 NWBK 6016
fr|RIB 30002 00550 0000157841Z 25
fr|SIREN 732 829 321, TVA FR 84 404 833 048
"""


@pytest.mark.parametrize("row", [row for row in NOTHING.split("\n") if row])
def test_hard_negatives(row: str) -> None:
    language, _, text = row.partition("|")
    assert found(text, language) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("GB29 NWBK 6016 1331 9268 18", "iban"), ("IBAN: FR14 2004 1010 0505", "iban"),
        ("NIF 12345678A", "tax"), ("card 4111 1111 1111 1112", "card"), ("31/02/2024", "date"),
        ("31 February 2024", "date"),
    ],
)  # fmt: skip
def test_what_fails_its_check_is_told_when_asked_for_and_never_as_valid(
    text: str, kind: str
) -> None:
    assert found(text) == []
    (one,) = found(text, unchecked=True)
    assert (one.kind, one.valid) == (kind, False)


def test_a_currency_that_is_not_certain_has_an_amount_and_no_value() -> None:
    (one,) = found("$500", "es")
    assert (one.value, dict(one.details)) == ("", {"amount": "500"})
    assert found("$500")[0].details["currency"] == "USD"


@pytest.mark.parametrize(
    ("language", "text", "values"),
    [
        ("en", "May 5 and June 7, 2024", ["--05-05", "2024-06-07"]),
        ("en", "5 June 2024 to 3 May 2024", ["2024-06-05", "2024-05-03"]),
        ("es", "3 de mayo de 2024 y 5 de junio de 2024", ["2024-05-03", "2024-06-05"]),
        ("fr", "le 12/05/2024 et le 14/06/2024", ["2024-05-12", "2024-06-14"]),
        ("en", "April and May 2024", ["2024-05"]),
        ("en", "a 14-July-2024 deadline", ["2024-07-14"]),
    ],
)
def test_dates_that_are_no_range_stay_apart(language: str, text: str, values: list[str]) -> None:
    assert [one.value for one in found(text, language)] == values


def test_a_range_whose_order_is_not_certain_tells_both() -> None:
    (one,) = found("03/04/2024 - 05/04/2024")
    readings = "2024-04-03/2024-04-05 or 2024-03-04/2024-05-04"
    assert (one.value, dict(one.details)) == ("", {"readings": readings})


def test_a_country_without_doubt_only() -> None:
    assert found("+1 202 555 0143")[0].details == {}  # the code of twenty countries
    assert found("+33 1 23 45 67 89")[0].details == {"country": "FR"}
