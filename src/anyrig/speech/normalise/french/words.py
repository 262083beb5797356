"""French abbreviations, acronyms and the words for signs."""

from __future__ import annotations

SIGNS = {
    "&": "et", "@": "arobase", "#": "dièse", "+": "plus", "=": "égale", "<": "inférieur à",
    ">": "supérieur à", "±": "plus ou moins", "×": "fois", "÷": "divisé par", "§": "paragraphe",
    "©": "copyright", "®": "marque déposée", "™": "marque déposée", "°": "degrés", "/": "slash",
    "→": "flèche", "←": "flèche gauche", "↑": "flèche haut", "↓": "flèche bas", "≈": "environ",
    "≠": "différent de", "≤": "inférieur ou égal à", "≥": "supérieur ou égal à",
    "√": "racine carrée de", "π": "pi", "∞": "infini", "%": "pour cent", "‰": "pour mille",
    "€": "euros", "£": "livres sterling", "$": "dollars", "¥": "yens", "²": "au carré",
    "³": "au cube", "−": "moins", "*": "fois", "^": "puissance", "~": "environ",
    "_": "tiret bas", "\\": "antislash", "µ": "micro", "Ω": "ohms", "∑": "somme", "∆": "delta",
    "α": "alpha", "β": "bêta", "γ": "gamma", "¶": "paragraphe", "†": "", "‡": "", "•": "", "·": "",
    "{": "", "}": "", "►": "", "■": "", "●": "", "◆": "", "○": "", "□": "", "⇒": "implique",
    "<=": "inférieur ou égal à", ">=": "supérieur ou égal à", "!=": "différent de", "==": "égale",
    "->": "flèche", "=>": "flèche", "∈": "appartient à", "∅": "ensemble vide", "º": "", "ª": "",
    "[": "", "]": "", "ᵉ": "", "′": "minutes", "″": "secondes",
}  # fmt: skip
ADDRESS = {
    ".": "point", "@": "arobase", "/": "slash", "-": "tiret", "_": "tiret bas", ":": "deux points",
    "?": "point d'interrogation", "=": "égale", "&": "et", "+": "plus", "#": "dièse",
    "%": "pour cent", "~": "tilde",
}  # fmt: skip

# Before a name; without a full stop or with one.
TITLES = {
    "Mme": "madame", "Mmes": "mesdames", "Mlle": "mademoiselle", "Mlles": "mesdemoiselles",
    "MM.": "messieurs", "Mme.": "madame", "Mlle.": "mademoiselle", "Mr": "monsieur",
    "Mr.": "monsieur",
    "Mrs": "messieurs", "Dr": "docteur", "Dr.": "docteur", "Drs": "docteurs", "Dre": "docteure",
    "Pr": "professeur",
    "Pr.": "professeur", "Prof.": "professeur", "Me": "maître", "Mgr": "monseigneur",
    "Vve": "veuve",
    "St": "Saint", "Ste": "Sainte", "Sts": "Saints", "Gal": "général",
    "Gén.": "général", "Cdt": "commandant", "Cne": "capitaine", "Lt": "lieutenant",
    "Col.": "colonel", "Cap.": "capitaine",
    "Cdt.": "commandant", "Lt.": "lieutenant", "lt.": "lieutenant", "Éts": "établissements",
    "Ets": "établissements", "Sgt": "sergent", "R. P.": "révérend père", "Ing.": "ingénieur",
}  # fmt: skip
STREETS = {
    "av.": "avenue", "ave.": "avenue", "bd": "boulevard", "bd.": "boulevard", "bld": "boulevard",
    "blvd": "boulevard", "boul.": "boulevard",
    "pl.": "place", "rte": "route", "imp.": "impasse", "fg": "faubourg", "fbg": "faubourg",
    "ch.": "chemin", "chem.": "chemin",
    "all.": "allée", "sq.": "square", "aven.": "avenue",
}  # fmt: skip
# With a number behind them.
BEFORE_NUMBER = {
    "p.": "page", "pp.": "pages", "pg.": "page", "n°": "numéro", "n º": "numéro", "no": "numéro",
    "no.": "numéro", "n.": "numéro",
    "nᵒ": "numéro", "n°s": "numéros", "num.": "numéro", "chap.": "chapitre",
    "ch.": "chapitre", "vol.": "volume",
    "t.": "tome", "art.": "article", "al.": "alinéa", "fig.": "figure", "figs.": "figures",
    "tél.": "téléphone", "tel.": "téléphone", "tél": "téléphone",
    "env.": "environ", "max.": "maximum", "min.": "minimum", "éd.": "édition", "ex.": "exemple",
    "réf.": "référence",
    "ca": "circa", "v.": "vers", "app.": "appartement", "appt": "appartement",
    "appt.": "appartement", "apt.": "appartement",
    "bât.": "bâtiment", "sect.": "section", "approx.": "approximativement", "tab.": "tableau",
    "cf.": "confer", "poste": "poste", "#": "numéro",
    "ép.": "épisode", "pl.": "planche", "vers.": "version", "alt.": "altitude",
    "temp.": "température", "§": "paragraphe", "§§": "paragraphes",
}  # fmt: skip
# Anywhere, also as the last word of a sentence.
CLOSERS = {
    "etc.": "et cetera", "etc": "et cetera", "env.": "environ", "S. A.": "société anonyme",
    "S.A": "société anonyme", "S. A. R. L.": "société à responsabilité limitée",
    "Cie": "compagnie", "Cie.": "compagnie", "s. v. p.": "s'il vous plaît",
    "svp": "s'il vous plaît", "s. t. p.": "s'il te plaît", "stp": "s'il te plaît",
    "É.-U.": "États-Unis", "E.-U.": "États-Unis", "É.-U. A.": "États-Unis d'Amérique",
    "R.-U.": "Royaume-Uni", "hab.": "habitants", "arr.": "arrondissement",
    "éd.": "édition", "qqch.": "quelque chose", "ouv.": "ouvert", "suppl.": "supplément",
}  # fmt: skip
# Anywhere; a capital after them begins no sentence.
ANYWHERE = {
    "p. ex.": "par exemple", "p.ex": "par exemple", "par ex.": "par exemple",
    "c.-à-d.": "c'est-à-dire", "c.à.d.": "c'est-à-dire", "càd": "c'est-à-dire",
    "c-à-d": "c'est-à-dire", "i. e.": "c'est-à-dire", "e. g.": "par exemple", "cf.": "confer",
    "cf": "confer", "n°": "numéro", "tél.": "téléphone", "tél": "téléphone",
    "approx.": "approximativement", "RDV": "rendez-vous", "rdv": "rendez-vous",
    "P.-S.": "post-scriptum", "P. S.": "post-scriptum", "N. B.": "nota bene",
    "vs": "versus", "vs.": "versus", "apr.": "après", "dép.": "département", "dépt": "département",
    "gouv.": "gouvernement", "univ.": "université", "chap.": "chapitre",
    "fig.": "figure", "réf.": "référence", "ndlr": "note de la rédaction",
    "N.D.L.R.": "note de la rédaction", "n. d. t.": "note du traducteur", "ibid.": "ibidem",
    "id.": "idem", "op. cit.": "opere citato", "sqq.": "et suivantes", "bât.": "bâtiment",
    "dir.": "direction", "coll.": "collection", "trad.": "traduction", "qqch": "quelque chose",
    "qqn": "quelqu'un", "tjrs": "toujours", "bcp": "beaucoup", "pb": "problème",
    "resp.": "respectivement", "adr.": "adresse", "add.": "addition",
    "et/ou": "et ou", "pp.": "pages", "ss.": "suivantes", "R.A.S.": "rien à signaler",
    "c/o": "aux bons soins de", "qté": "quantité",
}  # fmt: skip

SAID = frozenset(
    "CAC "
    "ONU OTAN UNESCO UNICEF NASA FIFA UEFA SIDA OVNI INSEE SMIC CAF CROUS ENA FNAC LED PIN RAM SIM "
    "OPEP PACS COVID SARS CEDEX DOM TOM ZUP ZAC SAMU CNIL GIEC MEDEF URSSAF UNEDIC ARTE IKEA LASER "
    "RADAR ROM ZEP TIC BAC OPA LOL NATO WIFI LEGO SEPA INRA INRAE INSERM CAPES DASS FED SEB "
    "AGIRC ARRCO SACEM EHPAD BAFA LIDAR SWIFT ERASMUS ALENA FAO SOFRES IFOP CREDOC GIF PISA TAFTA "
    "ASEAN".split()
)
SPELT = frozenset(
    "OCDE ANPE UE USA CIA AOC IEEE EE AIEA ADSL URSS OMC OACI UMP CE CHU EHESS SARL".split()
)
PLAIN = frozenset(
    "A À AU AUX AS AI ART BAL BEL BAS BON CAR CAS CE CES CET CI DE DES DIT DU DIX DOS EAU ELLE EN "
    "ES "
    "EST ET EU EUX FEU FIN FOI FUT HUIT ICI IL ILS JE JEU LA LÀ LE LES LEUR LIT LOI LUI MA MAI MAL "
    "MER MES MOI MON MOT NE NI NON NOS NOUS NU OU OÙ ON OR OUI PAR PAS PEU PLUS POUR QUE QUI ROI "
    "SA "
    "SANS SE SEL SES SI SIX SOI SOL SON SUD SUR TA TE TES TOI TON TOUT TU UN UNE VA VIE VOS VOUS "
    "VU "
    "Y OK AH OH EH EST OUEST NORD SUD".split()
)
FULL = {
    "RDV": "rendez-vous", "SVP": "s'il vous plaît", "NB": "nota bene", "RAS": "rien à signaler",
    "STP": "s'il te plaît",
}  # fmt: skip
