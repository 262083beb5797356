"""Spanish abbreviations, acronyms and the words for signs."""

from __future__ import annotations

SIGNS = {
    "&": "y", "@": "arroba", "#": "almohadilla", "+": "más", "=": "igual a", "<": "menor que",
    ">": "mayor que", "±": "más menos", "×": "por", "÷": "entre", "§": "párrafo", "©": "copyright",
    "®": "marca registrada", "™": "marca registrada", "°": "grados", "/": "barra", "→": "flecha",
    "←": "flecha izquierda", "↑": "flecha arriba", "↓": "flecha abajo", "≈": "aproximadamente",
    "≠": "distinto de", "≤": "menor o igual que", "≥": "mayor o igual que", "√": "raíz cuadrada de",
    "π": "pi", "∞": "infinito", "%": "por ciento", "‰": "por mil", "€": "euros", "£": "libras",
    "$": "dólares", "¥": "yenes", "²": "al cuadrado", "³": "al cubo", "−": "menos", "*": "por",
    "^": "elevado a", "~": "aproximadamente", "_": "guion bajo", "\\": "barra invertida",
    "µ": "micro", "Ω": "ohmios", "∑": "suma", "∆": "delta", "α": "alfa", "β": "beta", "γ": "gamma",
    "¶": "párrafo", "†": "", "‡": "", "•": "", "·": "", "{": "", "}": "", "►": "", "■": "", "●": "",
    "◆": "", "○": "", "□": "", "⇒": "implica", "<=": "menor o igual que", ">=": "mayor o igual que",
    "!=": "distinto de", "==": "igual a", "->": "flecha", "=>": "flecha", "¬": "no",
    "∈": "pertenece a",
    "∅": "conjunto vacío", "′": "minutos", "″": "segundos", "º": "", "ª": "", "[": "", "]": "",
}  # fmt: skip
ADDRESS = {
    ".": "punto", "@": "arroba", "/": "barra", "-": "guion", "_": "guion bajo", ":": "dos puntos",
    "?": "interrogación", "=": "igual", "&": "y", "+": "más", "#": "almohadilla", "%": "por ciento",
    "~": "virgulilla",
}  # fmt: skip

# Titles and the like: a name follows, so they never end a sentence.
TITLES = {
    "Sr.": "señor", "Sra.": "señora", "Srta.": "señorita", "Sres.": "señores", "Sras.": "señoras",
    "Srtas.": "señoritas", "Dr.": "doctor", "Dra.": "doctora", "Dres.": "doctores",
    "Dras.": "doctoras",
    "Dña.": "doña", "D.ª": "doña", "Dª": "doña", "Prof.": "profesor", "Profa.": "profesora",
    "Prof.ª": "profesora", "Ing.": "ingeniero", "Lic.": "licenciado", "Lcdo.": "licenciado",
    "Lcda.": "licenciada", "Licda.": "licenciada", "Arq.": "arquitecto", "Gral.": "general",
    "Cnel.": "coronel",
    "Tte.": "teniente", "Cmdte.": "comandante", "Sgto.": "sargento", "Almte.": "almirante",
    "Excmo.": "excelentísimo", "Excma.": "excelentísima", "Ilmo.": "ilustrísimo",
    "Ilma.": "ilustrísima", "Rvdo.": "reverendo", "Rvda.": "reverenda", "Mons.": "monseñor",
    "Sto.": "Santo",
    "Sta.": "Santa", "Fr.": "fray", "Pbro.": "presbítero", "Hno.": "hermano", "Hna.": "hermana",
    "Abg.": "abogado",
    "Mtro.": "maestro", "Mtra.": "maestra", "Pdte.": "presidente", "Pdta.": "presidenta",
    "Avda.": "avenida", "Av.": "avenida", "Pza.": "plaza", "Plza.": "plaza", "Ctra.": "carretera",
    "Bo.": "barrio", "Urb.": "urbanización", "Blvd.": "bulevar", "Bulev.": "bulevar",
    "Edif.": "edificio",
    "Fdo.": "firmado", "Mª": "María", "M.ª": "María", "Fco.": "Francisco", "Ntra.": "nuestra",
    "Ntro.": "nuestro", "Psje.": "pasaje", "Pje.": "pasaje",
    "Gob.": "gobernador",
    "Univ.": "universidad", "Pto.": "puerto", "Srs.": "señores", "Vda.": "viuda", "vda.": "viuda",
}  # fmt: skip
# With a number behind them.
BEFORE_NUMBER = {
    "pág.": "página", "págs.": "páginas", "pag.": "página", "pp.": "páginas", "p.": "página",
    "n.º": "número",
    "n.o": "número", "nº": "número", "nº.": "número", "n°": "número", "n.°": "número",
    "núm.": "número", "num.": "número",
    "nro.": "número", "cód.": "código", "hab.": "habitación", "núms.": "números", "n.os": "números",
    "cap.": "capítulo",
    "caps.": "capítulos",
    "vol.": "volumen", "vols.": "volúmenes", "t.": "tomo", "art.": "artículo", "arts.": "artículos",
    "fig.": "figura", "figs.": "figuras", "tel.": "teléfono", "tel": "teléfono",
    "tfno.": "teléfono", "telf.": "teléfono",
    "tlf.": "teléfono", "tfn.": "teléfono", "km.": "kilómetro", "apdo.": "apartado",
    "ap.": "apartado", "apto.": "apartamento",
    "ej.": "ejemplo", "ed.": "edición", "lám.": "lámina", "secc.": "sección", "sec.": "sección",
    "c.p.": "código postal",
    "cp": "código postal", "v.": "versículo", "dpto.": "departamento", "depto.": "departamento",
    "col.": "columna",
    "aprox.": "aproximadamente", "máx.": "máximo", "mín.": "mínimo", "ca.": "circa", "c.": "circa",
    "párr.": "párrafo", "párrs.": "párrafos", "vers.": "versión",
    "máx": "máximo", "mín": "mínimo", "esc.": "escena", "ref.": "referencia", "int.": "interior",
    "ext.": "extensión", "#": "número",
    "kms.": "kilómetros", "long.": "longitud", "lat.": "latitud", "temp.": "temperatura",
}  # fmt: skip
# Anywhere, also as the last word of a sentence.
CLOSERS = {
    "etc.": "etcétera", "etc": "etcétera", "EE. UU.": "Estados Unidos", "EE.UU": "Estados Unidos",
    "EEUU": "Estados Unidos", "E.U.A.": "Estados Unidos de América", "Ud.": "usted",
    "Uds.": "ustedes", "Vd.": "usted", "Vds.": "ustedes", "aprox.": "aproximadamente",
    "S. A.": "sociedad anónima", "S. L.": "sociedad limitada", "S.A": "sociedad anónima",
    "S. A. U.": "sociedad anónima unipersonal",
    "S. A. de C. V.": "sociedad anónima de capital variable",
    "S. R. L.": "sociedad de responsabilidad limitada", "S.L": "sociedad limitada",
    "S. Coop.": "sociedad cooperativa", "Cía.": "compañía", "Cia.": "compañía",
    "Hnos.": "hermanos", "RR. HH.": "recursos humanos", "RRHH": "recursos humanos",
    "JJ. OO.": "Juegos Olímpicos", "JJOO": "Juegos Olímpicos", "FF. AA.": "Fuerzas Armadas",
    "CC. OO.": "Comisiones Obreras", "CCOO": "Comisiones Obreras", "AA. VV.": "autores varios",
    "VV. AA.": "varios autores", "SS. MM.": "sus majestades", "D. F.": "Distrito Federal",
    "q. e. p. d.": "que en paz descanse", "D. E. P.": "descanse en paz",
    "N. del T.": "nota del traductor", "N. de la T.": "nota de la traductora", "a. m.": "a eme",
    "p. m.": "pe eme", "izq.": "izquierda", "izda.": "izquierda",
    "izqda.": "izquierda", "izdo.": "izquierdo",
    "dcha.": "derecha", "dcho.": "derecho", "ss.": "siguientes", "máx.": "máximo",
    "mín.": "mínimo", "ed.": "edición", "hab.": "habitantes", "Bs. As.": "Buenos Aires",
    "Atte.": "atentamente", "esq.": "esquina", "atte.": "atentamente", "ptas.": "pesetas",
}  # fmt: skip
# Anywhere; a capital after them begins no sentence.
ANYWHERE = {
    "p. ej.": "por ejemplo", "p.ej": "por ejemplo", "ej.": "ejemplo", "apdo.": "apartado",
    "S. M.": "su majestad", "S. S.": "su santidad", "dpto.": "departamento",
    "depto.": "departamento", "admón.": "administración", "tel.": "teléfono", "tfno.": "teléfono",
    "tlf.": "teléfono", "vid.": "véase", "vs.": "versus",
    "vs": "versus", "cf.": "compárese", "cfr.": "compárese",
    "núm.": "número", "núms.": "números", "n.º": "número", "nº": "número", "pág.": "página",
    "págs.": "páginas", "cap.": "capítulo", "vol.": "volumen", "fig.": "figura", "tít.": "título",
    "gob.": "gobierno", "prov.": "provincia", "ref.": "referencia", "dir.": "dirección",
    "ibíd.": "ibídem", "ib.": "ibídem", "íd.": "ídem", "s. n.": "sin número", "s/n": "sin número",
    "c/u": "cada uno", "b/n": "blanco y negro", "a/c": "a cuenta", "d/f": "días fecha",
    "v. gr.": "verbigracia", "e. g.": "por ejemplo", "i. e.": "es decir", "Rte.": "remitente",
    "dto.": "descuento", "cta.": "cuenta", "pdo.": "pasado", "art.": "artículo",
    "cast.": "castellano", "esp.": "español", "fac.": "facultad", "entlo.": "entresuelo",
    "ppal.": "principal", "trad.": "traducción", "y/o": "y o", "u. m.": "unidad monetaria",
    "s. f.": "sin fecha", "op. cit.": "opus citatum", "N. B.": "nota bene", "N.B": "nota bene",
    "i+d": "i más d", "i+d+i": "i más d más i", "C. P.": "código postal",
}  # fmt: skip

SAID = frozenset(
    "ONU OTAN UNESCO UNICEF NASA FIFA UEFA SIDA OVNI IVA AVE RENFE PYME PYMES OPEP ESO RAE "
    "IBEX SEAT IKEA COVID LED PIN RAM ROM SIM INE ONCE OEA CIA DEA NATO AENA TAC UVI UCI PYMES "
    "SARS INEM FARC ETA PSOE CSIC LIDL ZARA LEGO ERASMUS MERCOSUR CEPAL UNAM "
    "INSERSO UNED TIC PEMEX FIDE FITUR ARCO RADAR LASER LÁSER GIF WIFI "
    "APEC ASEAN ALCA TALGO SICAV FAO".split()
)
SPELT = frozenset("OCDE ADSL USAC ETCS IEEE EE UE OIEA".split())
PLAIN = frozenset(
    "A AL AS DA DE DEL DI DIO DOS DÍA E EL EN ERA ES ESA ESE ESO ESTA ESTE FIN FUE HA HAN HAY HE "
    "IR "
    "LA LAS LE LES LO LOS LUZ MAL MAR MAS ME MI MÁS MES MIL MIS NI NO NOS O OJO ORO PAN PAZ PIE "
    "POR "
    "QUE QUÉ REY RÍO SAL SE SEA SER SI SIN SOL SON SU SUS SÍ TAL TAN TE TEN TU TUS TÚ U UN UNA UNO "
    "UVA VA VAN VER VES VEZ VI VOZ Y YA YO ÉL ASÍ DON GRAN HIJO SAN SER SOLO TRES SEIS DIEZ CASA "
    "VIDA "
    "PARA PERO COMO TODO NADA ALGO BIEN HOLA AMOR OK AY OH AH EH UF BAH".split()
)
FULL = {
    "EEUU": "Estados Unidos", "RRHH": "recursos humanos", "JJOO": "Juegos Olímpicos",
    "FFAA": "Fuerzas Armadas", "CCOO": "Comisiones Obreras", "EUA": "Estados Unidos de América",
}  # fmt: skip
