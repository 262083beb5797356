"""Kinds of documents that people sort by, with what each is in a few words.

A label that is one of these names is described by them; the others are what else a text may be,
against which "none of these" is weighed.
"""

from __future__ import annotations

from functools import lru_cache

from anyrig.documents.words import strip_accents

_TABLE = """
invoice|bill|Rechnung|facture|factura : a bill that asks for money to be paid for goods or services
receipt|Quittung|Beleg|reçu|recibo : proof that money was paid in a shop
reminder|payment reminder|reminder of payment|dunning letter|Mahnung|rappel|relance|recordatorio de pago : a demand to pay an amount that is overdue
quotation|quote|offer|estimate|Angebot|Kostenvoranschlag|devis|presupuesto : an offer of goods or services at a price, in answer to an enquiry
order|purchase order|Bestellung|commande|pedido : a request to deliver goods
delivery note|Lieferschein|bon de livraison|albarán : a list of goods that are delivered
bank statement|account statement|Kontoauszug|relevé de compte|extracto bancario : credits, debits and the balance of a bank account
payslip|pay slip|Gehaltsabrechnung|bulletin de paie|fiche de paie|nómina : gross and net salary of an employee for a month
tax return|tax assessment|Steuerbescheid|Steuererklärung|avis d'imposition|declaración de la renta : income tax, declared to or assessed by the tax office
contract|agreement|Vertrag|contrat|contrato : an agreement with clauses that binds two parties
lease|rental contract|tenancy agreement|Mietvertrag|bail|contrato de alquiler : an agreement between landlord and tenant about rent
cancellation|termination|notice|Kündigung|résiliation|cancelación|baja : a letter that ends a contract, a membership or a subscription
insurance policy|insurance|Versicherung|assurance|seguro : what an insurer covers, and the premium
complaint|Beschwerde|Reklamation|réclamation|plainte|queja|reclamación : a letter of someone who is not satisfied with goods or a service and wants it put right
job application|application|cover letter|Bewerbung|candidature|lettre de motivation|solicitud de empleo|candidatura : a letter in which someone applies for a job
CV|resume|curriculum vitae|Lebenslauf|currículum : a person's work experience, education and skills
reference|job reference|Arbeitszeugnis|certificat de travail|carta de recomendación : what an employer says of someone's work
certificate|Urkunde|Zeugnis|certificat|certificado : an official statement that something is so
minutes|meeting minutes|Protokoll|procès-verbal|compte rendu|acta : the record of who was present and what was decided at a meeting
invitation|Einladung|invitation à une fête|invitación : a letter that invites people to an event or a celebration
letter of thanks|thank-you letter|thanks|Dankschreiben|lettre de remerciement|carta de agradecimiento : a letter in which someone thanks for help or a present
personal letter|private letter|Privatbrief|lettre personnelle|carta personal : a letter to a friend or relative about one's life
recipe|Rezept|recette|receta : instructions for cooking a dish, with ingredients
manual|user manual|instructions|Bedienungsanleitung|Anleitung|mode d'emploi|notice|manual de instrucciones : instructions for installing or operating a device
medical report|doctor's letter|Arztbrief|Befund|rapport médical|informe médico : a patient's diagnosis, findings and treatment
news|news article|newspaper article|Nachrichten|Zeitungsartikel|actualités|article de presse|noticia|noticias : a newspaper report of a recent event
press release|Pressemitteilung|communiqué de presse|nota de prensa : what a company tells the newspapers
advertisement|advert|Werbung|publicité|publicidad|anuncio : a text that praises goods so that people buy them
newsletter|Rundschreiben|lettre d'information|boletín : news of an organisation for its readers
scientific paper|research paper|paper|wissenschaftlicher Artikel|article scientifique|artículo científico : methods and results of research
report|Bericht|rapport|informe : an account of findings and figures for a manager
law|statute|Gesetz|loi|ley : paragraphs of law made by a parliament
judgment|court ruling|Urteil|jugement|sentencia : the decision of a court and its grounds
story|novel|fiction|Erzählung|Roman|récit|roman|cuento|novela : a story with characters and dialogue
poem|poetry|Gedicht|poème|poema : verses
speech|Rede|discours|discurso : what a speaker says to an audience
travel|itinerary|ticket|Fahrkarte|billet|billete : a journey with dates, times and a booking
encyclopedia|lexicon|encyclopédie|enciclopedia : facts about nature, history or geography
weather|weather forecast|Wetter|météo|tiempo : temperatures, wind and rain
sport|sports|Sport|deporte : a match, its goals and its players
source code|code|program|Quelltext|code source|código fuente : functions and variables of a computer program
price list|rates|Preisliste|tarifs|liste de prix|lista de precios|tarifa : articles with their prices
list|shopping list|inventory|Liste|Einkaufsliste|Inventar|inventaire|inventario|lista : things one below the other, to be bought or counted
agenda|Tagesordnung|ordre du jour|orden del día : the points that a meeting will deal with
form|questionnaire|Formular|formulaire|formulario : fields for name, address and date, to be filled in
"""  # noqa: E501


@lru_cache(maxsize=1)
def _read_table() -> tuple[tuple[list[str], str], ...]:
    pairs = (line.partition(" : ") for line in _TABLE.strip().splitlines())
    return tuple((names.split("|"), description) for names, _, description in pairs)


@lru_cache(maxsize=1)
def _load_names() -> dict[str, str]:
    return {_fold(name): names[0] for names, _ in _read_table() for name in names}


def list_kinds() -> list[tuple[str, str]]:
    """The name of each kind and what it is."""
    return [(names[0], description) for names, description in _read_table()]


def find_kind(name: str) -> str:
    """The kind that a label names, in English or another language; empty for another label."""
    low = _fold(name)
    known = _load_names()
    return next((known[one] for one in (low, low.removesuffix("s"), low.removesuffix("en"))
                 if one in known), "")  # fmt: skip


def _fold(name: str) -> str:
    return " ".join(strip_accents(name).casefold().split())
