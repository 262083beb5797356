"""Spanish tables: abbreviations, months, acronyms, nouns and their gender."""

from __future__ import annotations

import re
from functools import lru_cache

from anyrig.text.recognizers import LazyPattern
from anyrig.text.recognizers.languages.shared import (
    CAPITAL,
    NAME_NEXT,
    NUMBER_NEXT,
    SHARED_SIGNS,
    SHARED_UNITS,
    SMALL,
    YEAR_NEXT,
    ShortForm,
    behind,
    unit_forms,
)

MONTHS = (
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
).split()
WEEKDAYS = "lunes martes miércoles jueves viernes sábado domingo".split()
SHORT_MONTHS = {
    **{name[:3]: number for number, name in enumerate(MONTHS, 1)}, "sept": 9, "set": 9, "ag": 8,
    "setiembre": 9, "febr": 2, "agto": 8, "novbre": 11, "dicbre": 12, "mzo": 3, "octbre": 10,
}  # fmt: skip
SHORT_WEEKDAYS = {
    "lun": 0, "mar": 1, "mart": 1, "mié": 2, "mie": 2, "mierc": 2, "miérc": 2, "jue": 3, "juev": 3,
    "vie": 4, "vier": 4, "sáb": 5,
    "sab": 5, "dom": 6,
}  # fmt: skip
TO, AND, OVER = "a", "y", "sobre"
# Before a name.
TITLES = {
    "Sr.": "señor", "Sra.": "señora", "Srta.": "señorita", "Sres.": "señores", "Srs.": "señores",
    "Sras.": "señoras", "Srtas.": "señoritas", "Dr.": "doctor", "Dra.": "doctora",
    "Dres.": "doctores", "Dras.": "doctoras", "Dña.": "doña", "D.ª": "doña", "Dª": "doña",
    "Dn.": "don", "Prof.": "profesor", "Profa.": "profesora", "Prof.ª": "profesora",
    "Ing.": "ingeniero", "Lic.": "licenciado", "Lcdo.": "licenciado", "Ldo.": "licenciado",
    "Lcda.": "licenciada", "Licda.": "licenciada", "Lda.": "licenciada", "Arq.": "arquitecto",
    "Abg.": "abogado", "Mtro.": "maestro", "Mtra.": "maestra", "Pdte.": "presidente",
    "Pdta.": "presidenta", "Gob.": "gobernador", "Dip.": "diputado", "Sen.": "senador",
    "Magdo.": "magistrado",
    "Excmo.": "excelentísimo", "Excma.": "excelentísima", "Excmos.": "excelentísimos",
    "Ilmo.": "ilustrísimo", "Ilma.": "ilustrísima", "Emmo.": "eminentísimo",
    "Rvdo.": "reverendo", "Rvda.": "reverenda", "Rvdmo.": "reverendísimo",
    "Rvmo.": "reverendísimo", "Rdo.": "reverendo", "Rev.": "reverendo", "R. P.": "reverendo padre",
    "Mons.": "monseñor", "Card.": "cardenal", "Arz.": "arzobispo", "Ob.": "obispo", "Fr.": "fray",
    "Pbro.": "presbítero", "Hno.": "hermano", "Hna.": "hermana", "Hnas.": "hermanas",
    "Sto.": "Santo", "Sta.": "Santa", "Sn.": "San", "Bto.": "beato", "Bta.": "beata",
    "Ntra.": "nuestra", "Ntro.": "nuestro", "S. M.": "su majestad", "S. S.": "su santidad",
    "S. A. R.": "su alteza real", "SS. AA. RR.": "sus altezas reales", "S. E.": "su excelencia",
    "S. E. R.": "su excelencia reverendísima", "Rvdo. P.": "reverendo padre", "Aux.": "auxiliar",
    "SS. MM.": "sus majestades", "S. A. S.": "su alteza serenísima",
    "Gral.": "general", "Gen.": "general", "Cnel.": "coronel", "Cor.": "coronel",
    "Tcol.": "teniente coronel", "Tte.": "teniente", "Tte. Cnel.": "teniente coronel",
    "Tte. Gral.": "teniente general", "Cap.": "capitán", "Cmdte.": "comandante",
    "Cdte.": "comandante", "Cte.": "comandante", "Comte.": "comandante", "Sgto.": "sargento",
    "Sgt.": "sargento", "Cbo.": "cabo", "Sdo.": "soldado", "Alfz.": "alférez", "Alf.": "alférez",
    "Subtte.": "subteniente", "Subof.": "suboficial", "Almte.": "almirante", "Alm.": "almirante",
    "Alte.": "almirante", "Cnl.": "coronel", "Tnte.": "teniente", "Mcal.": "mariscal",
    "Subtnte.": "subteniente", "Sarg.": "sargento", "Insp.": "inspector", "Emb.": "embajador",
    "Alc.": "alcalde", "Vble.": "venerable", "Pte.": "presidente", "Valm.": "vicealmirante",
    "Calm.": "contralmirante",
    "Avda.": "avenida", "Avd.": "avenida", "Av.": "avenida", "Pza.": "plaza", "Plza.": "plaza",
    "Pl.": "plaza", "Ctra.": "carretera", "Bo.": "barrio", "Urb.": "urbanización",
    "Blvd.": "bulevar", "Bulev.": "bulevar", "Edif.": "edificio", "Psje.": "pasaje",
    "Pje.": "pasaje", "Gta.": "glorieta", "Rda.": "ronda", "Trv.": "travesía", "Pol.": "polígono",
    "Pto.": "puerto", "Univ.": "universidad", "Fdo.": "firmado", "Mª": "María", "M.ª": "María",
    "Fco.": "Francisco", "Vda.": "viuda", "Capt.": "capitán", "Brig.": "brigadier",
    "Comod.": "comodoro", "Cap. Gral.": "capitán general", "Subinsp.": "subinspector",
    "Comis.": "comisario", "Vicepdte.": "vicepresidente", "Exmo.": "excelentísimo",
    "Excmas.": "excelentísimas", "Ilmos.": "ilustrísimos", "Ilmas.": "ilustrísimas",
    "Stos.": "santos", "Stas.": "santas", "N.ª S.ª": "Nuestra Señora", "Psj.": "pasaje",
    "Edo.": "estado", "Qta.": "quinta", "Rbla.": "rambla", "Mpio.": "municipio",
    "Fracc.": "fraccionamiento", "Prol.": "prolongación", "Calz.": "calzada", "Mza.": "manzana",
    "Lte.": "lote", "Cdad.": "ciudad", "Deleg.": "delegación", "Bº": "barrio",
    "Secr.": "secretario", "Mr.": "míster", "Mrs.": "místres", "Mme.": "madame",
    "Mlle.": "mademoiselle",
    "Rvdmo. P.": "reverendísimo padre", "Vicealm.": "vicealmirante",
    "Rvdos.": "reverendos", "Rvdas.": "reverendas", "Vizc.": "vizconde", "Mq.": "marqués",
}  # fmt: skip
# Before a woman's first name.
WOMENS_TITLES = {
    "Lic.": "licenciada", "Prof.": "profesora", "Ing.": "ingeniera", "Arq.": "arquitecta",
    "Abg.": "abogada", "Dip.": "diputada", "Sen.": "senadora", "Gob.": "gobernadora",
    "lic.": "licenciada", "prof.": "profesora", "ing.": "ingeniera", "arq.": "arquitecta",
}  # fmt: skip
WOMENS_NAMES = frozenset(
    "ana maría carmen laura marta elena isabel sara lucía paula cristina rosa julia teresa eva "
    "pilar beatriz inés raquel irene sofía".split()
)
# Before a number.
NUMBERED = {
    "fol.": "folio", "fols.": "folios", "op.": "opus", "exp.": "expediente",
    "lín.": "línea", "líns.": "líneas", "alt.": "altitud",
    "pobl.": "población", "pob.": "población", "disp.": "disposición",
    "pág.": "página", "págs.": "páginas", "pag.": "página", "pp.": "páginas", "p.": "página",
    "n.º": "número", "n.o": "número", "nº": "número", "nº.": "número", "n°": "número",
    "n.°": "número", "núm.": "número", "num.": "número", "nro.": "número", "n.os": "números",
    "núms.": "números", "cód.": "código", "hab.": "habitación", "cap.": "capítulo",
    "caps.": "capítulos", "vol.": "volumen", "vols.": "volúmenes", "t.": "tomo",
    "art.": "artículo", "arts.": "artículos", "fig.": "figura", "figs.": "figuras",
    "tel.": "teléfono", "tel": "teléfono", "tfno.": "teléfono", "telf.": "teléfono",
    "tlf.": "teléfono", "tfn.": "teléfono", "km.": "kilómetro", "apdo.": "apartado",
    "ap.": "apartado", "apto.": "apartamento", "ej.": "ejemplo", "ed.": "edición",
    "lám.": "lámina", "secc.": "sección", "sec.": "sección", "c.p.": "código postal",
    "cp": "código postal", "v.": "versículo", "vv.": "versículos", "dpto.": "departamento",
    "depto.": "departamento", "col.": "columna", "aprox.": "aproximadamente", "ca.": "circa",
    "c.": "circa", "párr.": "párrafo", "párrs.": "párrafos", "vers.": "versión",
    "esc.": "escena", "ref.": "referencia", "int.": "interior", "ext.": "extensión",
    "n.": "número", "#": "número", "kms.": "kilómetros", "long.": "longitud", "lat.": "latitud",
    "tít.": "título", "máx": "máximo", "mín": "mínimo", "ext": "extensión", "pta.": "puerta",
    "pto.": "punto", "ec.": "ecuación", "prof.": "profundidad", "nos.": "números",
    "tt.": "temas", "inc.": "inciso",
    "rec.": "recurso", "recs.": "recursos", "exptes.": "expedientes", "expte.": "expediente",
    "blq.": "bloque", "vag.": "vagón", "tab.": "tabla",
    "f.": "folio", "ff.": "folios", "apdos.": "apartados", "epígr.": "epígrafe",
    "ejs.": "ejemplos", "ptos.": "puntos", "cuad.": "cuadro", "fich.": "ficha",
    "leg.": "legajo", "inv.": "inventario", "cta.": "cuenta", "proc.": "procedimiento",
    "desp.": "despacho", "and.": "andén", "mód.": "módulo", "gpo.": "grupo", "niv.": "nivel",
    "plta.": "planta", "lib.": "libro",
}  # fmt: skip
# May be the last word of a sentence.
CLOSERS = {
    "gtos.": "gastos", "v. o.": "vía oral", "alt.": "altura",
    "etc.": "etcétera", "etc": "etcétera", "EE. UU.": "Estados Unidos", "EE.UU": "Estados Unidos",
    "EEUU": "Estados Unidos", "EE. UU. A.": "Estados Unidos de América",
    "E.U.A.": "Estados Unidos de América", "Ud.": "usted", "Uds.": "ustedes", "Vd.": "usted",
    "Vds.": "ustedes", "aprox.": "aproximadamente", "S. A.": "sociedad anónima",
    "S.A": "sociedad anónima", "S. L.": "sociedad limitada", "S.L": "sociedad limitada",
    "S. L. U.": "sociedad limitada unipersonal", "S. A. U.": "sociedad anónima unipersonal",
    "S. A. de C. V.": "sociedad anónima de capital variable",
    "S. R. L.": "sociedad de responsabilidad limitada", "S. Coop.": "sociedad cooperativa",
    "Hnos.": "hermanos", "RR. HH.": "recursos humanos",
    "RRHH": "recursos humanos", "JJ. OO.": "Juegos Olímpicos", "JJOO": "Juegos Olímpicos",
    "FF. AA.": "Fuerzas Armadas", "CC. OO.": "Comisiones Obreras", "CCOO": "Comisiones Obreras",
    "AA. VV.": "autores varios", "VV. AA.": "varios autores", "D. F.": "Distrito Federal",
    "q. e. p. d.": "que en paz descanse", "D. E. P.": "descanse en paz",
    "N. del T.": "nota del traductor", "N. de la T.": "nota de la traductora",
    "N. del E.": "nota del editor", "a. m.": "de la mañana", "p. m.": "de la tarde",
    "izq.": "izquierda", "izda.": "izquierda", "izqda.": "izquierda", "izdo.": "izquierdo",
    "dcha.": "derecha", "dcho.": "derecho", "dcha": "derecha", "ed.": "edición",
    "ss.": "siguientes",
    "sigs.": "siguientes", "sig.": "siguiente", "Bs. As.": "Buenos Aires",
    "AA. EE.": "Asuntos Exteriores", "Méx.": "México",
    "Méx. D. F.": "México Distrito Federal",
    "arts.": "artículos",
    "docs.": "documentos", "hnos.": "hermanos", "mill.": "millones", "bill.": "billones",
    "atte.": "atentamente",
    "esq.": "esquina", "ptas.": "pesetas", "máx.": "máximo", "mín.": "mínimo", "prom.": "promedio",
    "dpto.": "departamento", "tel.": "teléfono", "apdo.": "apartado",
    "corr.": "corregida", "aum.": "aumentada", "orig.": "original",
    "tfno.": "teléfono", "ntro.": "nuestro", "bco.": "banco", "hab.": "habitantes",
    "CC. AA.": "comunidades autónomas", "RR. PP.": "relaciones públicas",
    "DD. HH.": "derechos humanos", "OO. PP.": "obras públicas", "FF. CC.": "ferrocarriles",
    "RR. CC.": "Reyes Católicos", "NN. UU.": "Naciones Unidas", "BB. AA.": "bellas artes",
    "AA. PP.": "administraciones públicas", "PP. GG. E.": "presupuestos generales del Estado",
    "FF. CC. SS.": "fuerzas y cuerpos de seguridad", "FF. OO. PP.": "fuerzas de orden público",
    "MM. CC.": "medios de comunicación", "CC. EE.": "Comunidades Europeas",
    "Cód. Com.": "Código de Comercio", "Cód. Civ.": "Código Civil",
    "Cód. Pen.": "Código Penal", "aps.": "apóstoles", "mrs.": "mártires",
    "V.º B.º": "visto bueno", "Vº Bº": "visto bueno",
    "P. V. P.": "precio de venta al público",
    "s. e. u. o.": "salvo error u omisión",
    "q. D. g.": "que Dios guarde", "c. s. p.": "cantidad suficiente para",
    "s. s. s.": "su seguro servidor", "J. C.": "Jesucristo",
    "cts.": "céntimos",
}  # fmt: skip
# The same, written small only.
SMALL_CLOSERS = {
    "i. v.": "intravenosa", "i. m.": "intramuscular", "s. c.": "subcutánea", "s. d.": "sin datos",
    "s. a.": "sin año", "s. l.": "sin lugar", "s. e.": "sin editorial",
    "s. l. n. a.": "sin lugar ni año",
}  # fmt: skip
# A capital behind them begins no sentence.
INNER = {
    "ayto.": "ayuntamiento", "aytos.": "ayuntamientos",
    "admon.": "administración", "afmo.": "afectísimo",
    "ayte.": "ayudante", "cols.": "columnas", "impt.": "importante", "ltda.": "limitada",
    "sgte.": "siguiente", "sgtes.": "siguientes", "tpo.": "tiempo", "qca.": "química",
    "cía.": "compañía", "arch.": "archivo", "verb.": "verbo", "sel.": "selección",
    "dorm.": "dormitorios", "princ.": "principio", "lleg.": "llegada", "dest.": "destinatario",
    "inv.": "inventario",
    "pac.": "paciente", "trat.": "tratamiento", "últ.": "último",
    "ult.": "último", "alq.": "alquiler", "apto.": "apartamento", "sop.": "sopera",
    "dens.": "densidad", "pobl.": "población", "adm.": "administración",
    "admtvo.": "administrativo",
    "bibl.": "biblioteca", "cód.": "código", "const.": "constitución",
    "coord.": "coordinador", "dicc.": "diccionario", "ejérc.": "ejército",
    "est.": "estación", "fed.": "federación", "form.": "formulario", "impr.": "imprenta",
    "ingr.": "ingredientes", "inst.": "instituto", "intr.": "introducción",
    "jurispr.": "jurisprudencia", "lit.": "literatura", "manz.": "manzana",
    "nal.": "nacional", "obs.": "observaciones", "prep.": "preparación", "prov.ª": "provincia",
    "reg.": "registro", "sdad.": "sociedad", "supl.": "suplemento",
    "transp.": "transporte", "tte.": "teniente", "vto.": "vencimiento",
    "mun.": "municipal", "nac.": "nacional", "internac.": "internacional", "pres.": "presidente",
    "secret.": "secretaría", "recom.": "recomendado", "caract.": "características",
    "exc.": "excelente",
    "p. ej.": "por ejemplo", "p.ej": "por ejemplo", "ej.": "ejemplo", "depto.": "departamento",
    "admón.": "administración", "tlf.": "teléfono", "vid.": "véase", "v. gr.": "verbigracia",
    "vs.": "versus", "vs": "versus", "cf.": "compárese", "cfr.": "compárese", "núm.": "número",
    "núms.": "números", "n.º": "número", "nº": "número", "pág.": "página", "págs.": "páginas",
    "cap.": "capítulo", "vol.": "volumen", "fig.": "figura", "tít.": "título",
    "gob.": "gobierno", "prov.": "provincia", "ref.": "referencia", "dir.": "dirección",
    "ibíd.": "ibídem", "ib.": "ibídem", "íd.": "ídem", "s. n.": "sin número", "s/n": "sin número",
    "c/u": "cada uno", "b/n": "blanco y negro", "a/c": "a cuenta", "d/f": "días fecha",
    "e. g.": "por ejemplo", "i. e.": "es decir", "rte.": "remitente", "dto.": "descuento",
    "cta.": "cuenta", "pdo.": "pasado", "art.": "artículo", "cast.": "castellano",
    "esp.": "español", "fac.": "facultad", "entlo.": "entresuelo", "ppal.": "principal",
    "trad.": "traducción", "y/o": "y o", "u. m.": "unidad monetaria", "s. f.": "sin fecha",
    "op. cit.": "opus citatum", "N. B.": "nota bene", "N.B": "nota bene", "i+d": "i más d",
    "i+d+i": "i más d más i", "C. P.": "código postal", "temp.": "temperatura",
    "disp. adic.": "disposición adicional", "disp. trans.": "disposición transitoria",
    "disp. final": "disposición final", "exp.": "expediente", "vel.": "velocidad",
    "T.ª": "temperatura", "Comp.ª": "Compañía",
    "catedr.": "catedrático", "Hª": "Historia",
    "Fdez.": "Fernández", "Hdez.": "Hernández", "Rguez.": "Rodríguez", "Glez.": "González",
    "Mtnez.": "Martínez", "Dguez.": "Domínguez", "Gcía.": "García", "Tfe.": "Tenerife",
    "dist.": "distancia", "P. D.": "posdata",
    "Dir. Gral.": "director general", "pol. ind.": "polígono industrial", "atta.": "atenta",
    "atto.": "atento",
    "tto.": "tratamiento", "pcte.": "paciente", "fra.": "factura",
    "fras.": "facturas", "vcto.": "vencimiento", "dtor.": "director", "dtora.": "directora",
    "stte.": "subteniente", "fca.": "fábrica", "ftal.": "forestal", "mss.": "manuscritos",
    "ms.": "manuscrito", "dpdo.": "duplicado", "cte.": "corriente",
    "s/ref.": "su referencia", "n/ref.": "nuestra referencia", "ntra.": "nuestra",
    "vit.": "vitamina", "cab.": "cabeza", "reimpr.": "reimpresión", "inc.": "inciso",
    "ob. cit.": "obra citada",
    "loc. cit.": "lugar citado", "ant.": "antiguo",
    "s/c": "sin contraste", "p. b.": "planta baja",
    "adv.": "adverbio", "sust.": "sustantivo", "masc.": "masculino",
    "fem.": "femenino", "sing.": "singular", "plur.": "plural", "lat.": "latín",
    "ingl.": "inglés", "fr.": "francés", "it.": "italiano",
    "port.": "portugués", "pral.": "principal", "vac.": "vacaciones", "mdo.": "mercado",
    "cdad.": "ciudad", "hosp.": "hospital", "par.": "parroquia",
    "gral.": "general", "grales.": "generales",
}  # fmt: skip
# Cut short before a vowel, wherever people like: vac., vacac. Adjectives agree.
CLIPPED = (
    "dilatación coeficiente construcción elección género geología geometría importe mensual "
    "mercancía "
    "nominal popular privado pronombre subjuntivo subterráneo tecnología zoología yacimiento "
    "constitución lugar "
    "responsabilidad capítulo compañía colección comisión conferencia consejo contabilidad "
    "artículo departamento "
    "director disposición documento editorial especialidad excelente expediente fotografía "
    "gobierno habitación ilustración ilustraciones información inspector instituto local "
    "matrícula medicina "
    "ministerio modelo notario obligación oficina página participantes presidente producto "
    "profesor publicación recurso registro representante residencia revista secretario segundo "
    "semana teléfono temperatura titular traducción tribunal volumen categoría calefacción "
    "abreviatura acceso accesorio actividad actualización administración aeropuerto agencia "
    "agricultura alimentación almacén alojamiento alumno análisis anotación antecedentes "
    "antibiótico anticipo anuncio aparcamiento aparato aplicación apellido aportación apóstoles "
    "arquitectura ascensor asignatura asistencia asociación atención autobús autonomía "
    "autorización auxiliar ayuntamiento balcón beneficio biblioteca biología bocadillo boletín "
    "bonificación brigadier bulevar calificación calificaciones calle cantidad capacidad capital "
    "capitán característica carretera carpeta catálogo catedral catedrático central centímetro "
    "certificado clasificación cliente cocina código colaboración colaboradores colegio colonia "
    "comandante comarca comedor comentario comercio comisaría comparación complemento componentes "
    "composición comprimidos comunicación comunidad concepto condiciones confirmación conjunto "
    "conocimiento consejero conservación consultorio consumición contacto contenido contestación "
    "continuación contraseña contrato cooperativa coordinador corporación corrección "
    "correspondencia cronología cuaderno cuchara cucharada cuestionario debutante decimal "
    "decisión declaración decoración decreto dedicación definición degustación delegación "
    "delegado derecho derivado descripción descuento desviación detalle diagnóstico diámetro "
    "diccionario dificultad dimensiones diputado dirección disponibilidad distancia distrito "
    "divisiones doctorado documentación domicilio dormitorio duplicado duración economía edición "
    "edificio editor educación ejecución ejemplar ejemplo ejercicio ejército elaboración "
    "electricidad electrónica elementos emisión empleado empresa enciclopedia enfermedad "
    "enfermera entrada entrega equipamiento equivalente escalera escritura especialista "
    "espectáculo establecimiento estación estadística estudiante estudio evaluación examen "
    "excelencia excepción exclusivo exento existencias experiencia exploración exportación "
    "exposición expresión extensión fabricación facultad factura farmacia fascículo fechas "
    "federación ferrocarril ficha finalización finanzas formación formulario fotocopia frecuencia "
    "función fundación garaje generación geografía gerencia gestión gimnasio gobernador grabación "
    "gráfico gratificación habitantes hermano historia homenaje honorarios hospital "
    "identificación iglesia ilustraciones imagen importación importe imprenta inauguración "
    "incluido incorporación indemnización indicación índice industria infantería informática "
    "informe ingeniería ingredientes iniciativa inmobiliaria inscripción inspección instalaciones "
    "institución instrucciones integrantes interpretación introducción inventario investigación "
    "invitación jefatura jornada jubilación jugador jurisprudencia justificante laboratorio "
    "lectura legislación legislatura licencia licitación limitación limitada liquidación "
    "literatura localidad localización longitud maestro magistrado manuscrito mantenimiento "
    "manzana máquina marginal matrimonio medicamento medidas metálico metodología ministro "
    "modalidad modificación monasterio movimiento municipio música nacimiento negociable noticias "
    "notificación número obligatorio observaciones obtención ocupación oficial operación "
    "ordenanza organización organizador orientación origen original ortografía paciente párrafo "
    "parroquia participación partido pasaporte patente patrimonio patrocinador periódico "
    "periodista permiso persona personas piscina planificación población polígono portada "
    "porcentaje posición precaución precio preferencia prefacio prefijo preparación prescripción "
    "presentación presidencia prestación presupuesto principal probabilidad procedencia "
    "procedimiento procesador producción profesión profundidad programa prohibido prólogo "
    "promoción propiedad propietario propina proporción protección provincia proximidad "
    "publicidad puntuación radiografía realización rebajas recepción recibo reclamación "
    "recomendación recomendado reconocimiento redacción reducción referencia regimiento región "
    "reglamento regulación relaciones remitente representación reproducción república requisitos "
    "reserva resolución respuesta responsable restauración resultado resumen reunión revisión "
    "salario salida sección secretaría segmento seguimiento seguridad seminario sentencia "
    "señalización separata serial servicio sesión siguiente símbolo situación sobrante sociedad "
    "solicitud soltero subdirector suburbano subvención sucursal sueldo superficie superior "
    "suplemento suscripción sustantivo talleres tamaño tapicería técnico tecnología televisión "
    "temporada teniente terapia terminal término terraza territorio testigo tienda titulación "
    "titulaciones trabajo traductor tramitación transferencia transporte tratamiento tributo "
    "trimestre trimestral universidad urbanización urgencia urgente utilización vacaciones "
    "valoración variedad vecinos vehículo velocidad vencimiento ventana vestuario viabilidad "
    "vicepresidente visibilidad vocabulario vocal voluntario votación zapatería "
    "abogado acuerdo adhesión adolescente adquisición advertencia agravante alcalde ambulatorio "
    "aniversario apertura aprendizaje arbitraje archivo argumento arrendamiento asamblea aspirante "
    "aumento avería ayudante bachillerato balance bautismo becario biografía borrador cabecera "
    "calendario cámara campeonato canciller candidato carga cartografía ceremonia certamen "
    "circulación circunscripción cirugía cirujano ciudadano código coeficiente colaborador "
    "comisario competencia compraventa compromiso conclusión concurso conductor congreso "
    "constructor consulta convalidación convenio convocatoria cooperación coronel crédito crónica "
    "cuarentena cultura defensa demanda dependencia dermatología desarrollo descubrimiento destino "
    "destinatario diploma diócesis dirigente discurso diseño disertación divulgación embajada "
    "encuesta energía entidad entrenador episodio equipaje errata escultura especificación "
    "esperanza etimología excursión exploración expositor filosofía financiación firma fiscal "
    "fracción franquicia fundador género glosario graduado grupo guarnición hipoteca horario "
    "huésped impuesto incidencia independencia infracción inmueble instancia interés intervención "
    "inversión itinerario jerarquía judicatura juzgado lámina lector letrado liderazgo lingüística "
    "mecánico mensaje meteorología migración misión monumento narración nómina nomenclatura "
    "objetivo observatorio oposición orquesta pabellón parlamento pasajero pediatría península "
    "pensión permanencia personal perspectiva poesía política potencia práctica presencia préstamo "
    "prevención producto pronóstico pronunciación propuesta protocolo provisión proyecto "
    "psicología "
    "queja reactivo receta reclamante reconstrucción recuento rector refugio reina reparación "
    "reportaje representación residuo restauración retención reunión ruta salón sanción seguro "
    "selección senado sindicato sinónimo sistema solución subasta sugerencia tarifa teatro teoría "
    "tesorero tipo título total traslado trayecto tutor vacuna valle validez versión viajero "
    "vigencia vivienda"
).split()
CLIPPED_ADJECTIVES = (
    "inédito crítico absoluto relativo específico abierto acondicionado actualizado adjunto "
    "administrativo amueblado ampliado antiguo aprobado "
    "automático bilingüe céntrico climatizado comarcano completo confirmado congelado consolidado "
    "corregido cuadrado científico decorado definitivo dedicado derivado descatalogado eléctrico "
    "electrónico encuadernado equipado estimado exclusivo fotográfico físico garantizado gratuito "
    "histórico hidráulico ilustrado imprescindible incluido independiente indefinido individual "
    "industrial instalado interino internacional jurídico limitado mecánico médico municipal "
    "máximo mínimo nacional negociable numerado opcional obligatorio ocupado original ordinario "
    "político presencial profesional provisional próximo público químico recomendado reducido "
    "reformado renovado revisado rústico soleado técnico último usado universitario válido "
    "vegetal voluntario"
).split()
WORDS_LIKE_CLIPPED = frozenset(
    (
        "fin sol mar sal son ser ver dar gen pan red col mil sur ron gas bar par por con sin tan "
        "mes res voz vez mal tal cual real gran final"
    ).split()
)
"""Words of their own that a sentence written without capitals may end in."""
# Of an army, behind an ordinal.
UNITS_OF_ARMIES = {
    "Bat.": "batallón", "Bón.": "batallón", "Btn.": "batallón", "Div.": "división",
    "Reg.": "regimiento", "Rgto.": "regimiento", "Regto.": "regimiento", "Brig.": "brigada",
    "Cía.": "compañía", "Comp.": "compañía", "Esc.": "escuadrón", "Ejto.": "ejército",
    "Cpo.": "cuerpo", "pta.": "planta", "pl.": "planta", "trim.": "trimestre", "h.": "hora",
    "cuatr.": "cuatrimestre", "sem.": "semestre", "ed.": "edición", "cap.": "capítulo",
    "div.": "división", "conv.": "convocatoria", "jorn.": "jornada",
}  # fmt: skip
LEADING = ()
PLAIN_FORMS = ()
"""More forms that need no full stop."""
UNIT_NOUNS = {
    "km": "kilómetro", "kg": "kilo", "cm": "centímetro", "m²": "metro cuadrado",
    "kWh": "kilovatio hora",
    "ha": "hectárea", "GB": "gigabyte", "MB": "megabyte",
}  # fmt: skip
AGREEING = {
    "máx.": "máxim", "mín.": "mínim", "máx": "máxim", "mín": "mínim", "adj.": "adjunt",
    "amueb.": "amueblad", "amuebl.": "amueblad", "reform.": "reformad", "acond.": "acondicionad",
    "incl.": "incluid", "inc.": "incluid", "compl.": "complet",
}  # fmt: skip
# Units, currencies, millions, and what stands behind a slash.
UNITS = {
    **SHARED_UNITS, "hs": "duration-hour", "hrs": "duration-hour", "hr": "duration-hour",
    "seg": "duration-second", "segs": "duration-second", "mins": "duration-minute",
    "rpm": "revolution-per-minute", "r.p.m.": "revolution-per-minute",
    "fps": "frame-per-second", "uds.": "item", "ud.": "item",
    "uds": "item", "págs.": "page", "pág.": "page", "pulg.": "length-inch",
    "pulg": "length-inch", "cda.": "volume-tablespoon", "cdas.": "volume-tablespoon",
    "cdta.": "volume-teaspoon", "cdtas.": "volume-teaspoon", "kms": "length-kilometer",
    "m s. n. m.": "meter-above-sea", "m. s. n. m.": "meter-above-sea",
    "msnm": "meter-above-sea",
    "mts": "length-meter", "kgs": "mass-kilogram", "grs": "mass-gram",
    "c. c.": "volume-cubic-centimeter", "cc": "volume-cubic-centimeter", "q": "quintal",
    "cts": "cent", "cts.": "cent",
    "a.": "duration-year", "d": "duration-day", "lpm": "beat-per-minute",
    "rac.": "serving", "racs.": "serving", "porc.": "serving",
    "c. s.": "volume-tablespoon", "c. p.": "volume-teaspoon", "c. a.": "volume-teaspoon",
    "pb": "basis-point", "pbs": "basis-point", "p. b.": "basis-point", "pp": "percentage-point",
    "cdita.": "volume-teaspoon", "cditas.": "volume-teaspoon", "cp.": "volume-teaspoon",
    "c/c": "volume-teaspoon", "c/s": "volume-tablespoon", "cucharad.": "volume-tablespoon",
    "u.": "item", "uu.": "item", "piezas": "piece", "pza.": "piece", "pzas.": "piece",
    "mcg": "mass-microgram", "UI": "international-unit", "U.I.": "international-unit",
    "comps.": "tablet", "sem.": "duration-week", "comp.": "tablet", "caps.": "capsule",
    "gts.": "drop", "amp.": "vial", "ptos.": "point", "ptos": "point", "pts": "point",
    "pts.": "point",
}  # fmt: skip
SIGNS = {
    **SHARED_SIGNS, "dólares": "USD", "dls.": "USD", "dls": "USD", "dlls.": "USD",
    "libras": "GBP", "PEN": "PEN", "S/": "PEN",
    "S/.": "PEN", "UYU": "UYU", "pesos": "pesos", "Bs": "BOB", "Bs.": "BOB", "₡": "CRC",
    "rs.": "ESR", "rs": "ESR", "ptas.": "ESP", "ptas": "ESP", "pta.": "ESP",
}  # fmt: skip
SCALES = {
    "miles de millones": 9, "mil millones": 9, "millones": 6, "millón": 6, "millon": 6,
    "mill.": 6, "billones": 12, "billón": 12, "mil": 3, "MM": 6, "M": 6, "k": 3, "K": 3,
}  # fmt: skip
PER_WORDS = {
    "mes": "al mes", "año": "al año", "día": "al día", "semana": "a la semana",
    "hora": "por hora", "min": "por minuto", "d": "al día", "kilo": "por kilo",
    "litro": "por litro", "persona": "por persona",
    "noche": "por noche", "ud.": "por unidad", "ud": "por unidad", "unidad": "por unidad",
    "u.": "por unidad", "minuto": "por minuto", "pieza": "por pieza",
    "trimestre": "al trimestre", "docena": "por docena", "barril": "por barril",
    "usuario": "por usuario", "alumno": "por alumno",
}  # fmt: skip
STARTERS = frozenset(
    "gracias el la los las un una unos unas él ella ellos ellas yo tú nosotros usted ustedes esto "
    "esta este estos estas eso esa ese esos esas aquel aquella pero y e o ni no sí cuando "
    "como si en después antes luego entonces su sus mi mis tu tus qué quién quien por para "
    "se lo le les me te nos aquí ahí allí hoy ayer mañana ahora ya nadie nada todo todos "
    "todas cada según con sin desde hasta durante mientras aunque además también tampoco "
    "así al a de del más menos muy era es fue hay había son eran llame llámame cuesta vale "
    "mide pesa tiene luego finalmente primero nuestro nuestra otro otra otros algunos "
    "algunas muchos muchas pocos dos tres ambos solo sólo apenas tras sobre entre bajo "
    "contra ante que cuál cuánto dónde cómo porque pues sin embargo quizá quizás tal vez "
    "siempre nunca jamás véase vea ver añada añadir sirva servir mezcle".split()
)
SPOKEN_ACRONYMS = frozenset(
    "ONU OTAN UNESCO UNICEF NASA FIFA UEFA SIDA OVNI IVA AVE RENFE PYME PYMES OPEP ESO RAE IBEX "
    "SEAT IKEA COVID LED PIN RAM ROM SIM INE ONCE OEA CIA DEA NATO AENA TAC UVI UCI SARS INEM FARC "
    "ETA PSOE CSIC LIDL ZARA LEGO ERASMUS MERCOSUR CEPAL UNAM INSERSO UNED TIC PEMEX FIDE FITUR "
    "ARCO RADAR LASER LÁSER GIF WIFI APEC ASEAN ALCA TALGO SICAV FAO EFE NIE ERTE ERE IBI".split()
)
SPELLED_ACRONYMS = frozenset("OCDE ADSL USAC ETCS IEEE EE UE OIEA".split())
PLAIN_WORDS = frozenset(
    "A AL AS DA DE DEL DI DIO DOS DÍA E EL EN ERA ES ESA ESE ESO ESTA ESTE FIN FUE HA HAN "
    "HAY HE IR LA LAS LE LES LO LOS LUZ MAL MAR MAS ME MI MÁS MES MIL MIS NI NO NOS O OJO "
    "ORO PAN PAZ PIE POR QUE QUÉ REY RÍO SAL SE SEA SER SI SIN SOL SON SU SUS SÍ TAL TAN "
    "TE TEN TU TUS TÚ U UN UNA UNO UVA VA VAN VER VES VEZ VI VOZ Y YA YO ÉL ASÍ DON GRAN "
    "HIJO SAN SER SOLO TRES SEIS DIEZ CASA VIDA PARA PERO COMO TODO NADA ALGO BIEN HOLA "
    "AMOR OK AY OH AH EH UF BAH".split()
)
FULL_ACRONYMS = {
    "EEUU": "Estados Unidos", "RRHH": "recursos humanos", "JJOO": "Juegos Olímpicos",
    "FFAA": "Fuerzas Armadas", "CCOO": "Comisiones Obreras", "EUA": "Estados Unidos de América",
}  # fmt: skip
# Before a Roman numeral that is read as a plain number.
COUNTED = (
    "capítulo capitulo tomo volumen libro parte título acto escena anexo apéndice sección fase "
    "nivel tabla figura lámina grado tipo clase grupo canto episodio temporada artículo apartado "
    "lección unidad tema módulo etapa serie apolo plan división guerra número rocky fascículo "
    "versión salmo soneto bloque semestre trimestre factor"
).split()
QUEENS = frozenset(
    "isabel maría juana catalina ana cristina victoria margarita cleopatra berenice leonor blanca "
    "urraca sofía beatriz constanza teresa petronila mary elizabeth carlota guillermina".split()
)
KINGS = QUEENS | frozenset(
    "paulo felipe carlos alfonso fernando luis enrique juan pedro sancho jaime ramiro garcía "
    "ordoño bermudo fruela pablo pío león gregorio benedicto clemente inocencio urbano "
    "sixto julio adriano bonifacio nicolás eugenio celestino honorio alejandro martín "
    "esteban jorge eduardo ricardo guillermo jacobo napoleón federico francisco josé "
    "leopoldo maximiliano otón rodolfo iván manuel alberto balduino humberto víctor "
    "gustavo cristián haakon harald olaf ramsés tutmosis ptolomeo amenofis darío jerjes "
    "artajerjes antíoco seleuco mitrídates constantino teodosio justiniano miguel basilio "
    "abderramán muhammad mohamed hassan selim solimán murad mehmed hasán rainiero raniero "
    "hugo roberto malcolm david kenneth olav erico canuto valdemar segismundo ladislao "
    "casimiro bela andrés duarte sebastián dionisio teobaldo wamba alarico teodorico "
    "vaticano letrán recaredo enrico filippo henry louis charles philip william george "
    "edward richard "
    "james paul".split()
)
# Behind a Roman numeral that is read as an ordinal.
EVENTS = LazyPattern(
    r"(?:guerra|congreso|edición|república|reich|concilio|festival|foro|cumbre|jornada|encuentro|"
    r"simposio|asamblea|premio|certamen|feria|semana|conferencia|legislatura|dinastía|plan|torneo|"
    r"copa|campeonato|juegos|cruzada|internacional|curso|concurso|aniversario|centenario|imperio|"
    r"maratón|trofeo|gala|bienal|milenio|región|convenio|ciclo|seminario|muestra|salón|carrera|vuelta|"
    r"marcha|conde|duque|marqués|distrito|ejército|cuerpo|flota|división|regimiento|batallón|mundial|"
    r"siglo|promoción|exposición|certamen|reunión)s?$"
)
# Words that may follow a number without being counted by it.
NO_NOUN = frozenset(
    "a al ante aunque así bajo cada como con contra cuando cuya cuyo de del desde después "
    "donde durante e el ella ellas ellos en entonces entre era eran es esa ese eso esta "
    "este esto está están fue fueron ha había hace hacia han hasta hay igual la las le les "
    "lo los luego me mi mientras más menos muy ni no nos o para pero por porque pues que "
    "quien se sea ser será si sin sino sobre son su sus sí tal también tan tiene tienen "
    "tras tu u un una uno va y ya yo antes además ahora aquí allí casi sólo solo según "
    "contiene trata dice habla empieza termina comienza explica muestra aparece".split()
)
# A number behind one of these is its name: page one, room two hundred.
LABELS = frozenset(
    "página pagina pág. págs. capítulo cap. número núm. n.º nº día siglo año años habitación sala "
    "puerta línea tomo volumen vol. figura fig. tabla apartado artículo art. nivel fase grupo "
    "versión lección unidad tema ejercicio paso piso planta aula vuelo canal ruta autobús tren "
    "kilómetro punto sección anexo calle avenida plaza código nota grado curso episodio temporada "
    "parte apartamento edificio bloque casilla vía andén mesa edición acto escena enero febrero "
    "marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre clase el del al "
    "desde".split()
)
_FEMININE = frozenset(
    "mujer noche vez clase calle parte llave nave torre flor mano foto moto radio red ley voz luz "
    "cruz imagen serie base frase fuente gente nube tarde sangre leche carne muerte suerte mente "
    "corriente superficie especie tesis crisis dosis síntesis hipótesis sede cárcel piel miel sal "
    "señal postal catedral capital central sucursal vocal orden pared nariz raíz matriz actriz "
    "perdiz codorniz vejez costumbre cumbre legumbre certidumbre variable nieve clave fase fiebre "
    "hambre diócesis elipsis tribu labor razón prisión corte suite barbarie planicie intemperie "
    "índole mole prole sien crin res tos hoz coz paz faz vid presión temp vel".split()
)
_MASCULINE = frozenset(
    "iva día mapa planeta cometa poeta atleta profeta pirata tranvía sofá guardia policía cura "
    "espía guía colega camarada problema sistema tema programa poema idioma clima drama "
    "síntoma fantasma aroma panorama pijama carisma cromosoma diploma enigma estigma dogma "
    "magma plasma prisma reuma trauma genoma gorila puma koala panda yoga vodka avión "
    "camión gorrión guion guión millón billón trillón escorpión campeón bastión sarampión "
    "embrión anfitrión dálmata patriarca monarca jerarca dentista indígena demócrata".split()
)
_FEMININE_END = LazyPattern(r"(?:a|ción|sión|xión|gión|nión|tión|dad|tad|tud|umbre|triz|ez)$")
_MASCULINE_END = LazyPattern(r"(?:[^rygdl]ema|grama|ista|cida|nauta|crata|iatra|arca|auta|ómetra)$")


def pluralize(noun: str) -> str:
    """`puntos`, `secciones`, `voces`; what ends in `s` or `x` stays."""
    if noun.endswith(("x", "s")):
        return noun
    if noun.endswith("ón"):
        return f"{noun[:-2]}ones"
    if noun.endswith("z"):
        return f"{noun[:-1]}ces"
    foreign = noun.endswith(("t", "k", "g", "c", "m", "b", "bitcoin", "gray", "becquerel"))
    return f"{noun}s" if noun[-1] in "aeo" or foreign else f"{noun}es"


@lru_cache(maxsize=4096)
def find_gender(noun: str) -> str:
    """The gender that a noun most likely has, by lists and by its ending."""
    forms = _singulars(noun.lower())
    for form in forms:
        if form in _FEMININE:
            return "f"
        if form in _MASCULINE:
            return "m"
    if _MASCULINE_END.search(forms[-1]):
        return "m"
    return "f" if _FEMININE_END.search(forms[-1]) else "m"


def _singulars(noun: str) -> list[str]:
    """What the singular may be: luces, luz; ciudades, ciudad; canciones, canción; casas, casa."""
    forms = [noun]
    if noun.endswith("ces"):
        forms.append(f"{noun[:-3]}z")
    if noun.endswith("s"):
        forms.append(noun[:-1])
    if noun.endswith("ágenes"):
        forms.append(f"{noun[:-6]}agen")
    elif noun.endswith("iones"):
        forms.append(f"{noun[:-5]}ión")
    elif noun.endswith("ones"):
        forms.append(f"{noun[:-4]}ón")
    elif re.search(r"[dlrnsyz]es$", noun):
        forms.append(noun[:-2])
    return forms


BOOKS = {
    "Gn": "Génesis", "Gén": "Génesis", "Ex": "Éxodo", "Éx": "Éxodo", "Lv": "Levítico",
    "Nm": "Números", "Dt": "Deuteronomio", "Jos": "Josué", "Jue": "Jueces", "Rt": "Rut",
    "S": "Samuel", "Sam": "Samuel", "R": "Reyes", "Re": "Reyes", "Cr": "Crónicas",
    "Cro": "Crónicas", "Esd": "Esdras", "Neh": "Nehemías", "Sal": "Salmo", "Prov": "Proverbios",
    "Pr": "Proverbios", "Ecl": "Eclesiastés", "Cant": "Cantares", "Is": "Isaías", "Isa": "Isaías",
    "Jer": "Jeremías", "Jr": "Jeremías", "Lam": "Lamentaciones", "Ez": "Ezequiel",
    "Dn": "Daniel", "Dan": "Daniel", "Os": "Oseas", "Jl": "Joel", "Am": "Amós", "Jon": "Jonás",
    "Miq": "Miqueas", "Hab": "Habacuc", "Sof": "Sofonías", "Ag": "Ageo", "Zac": "Zacarías",
    "Mal": "Malaquías", "M": "Macabeos", "Mac": "Macabeos", "Mt": "Mateo", "Mc": "Marcos",
    "Mr": "Marcos", "Lc": "Lucas", "Jn": "Juan", "Hch": "Hechos", "Rom": "Romanos",
    "Rm": "Romanos", "Co": "Corintios", "Cor": "Corintios", "Gál": "Gálatas", "Ga": "Gálatas",
    "Ef": "Efesios", "Flp": "Filipenses", "Fil": "Filipenses", "Col": "Colosenses",
    "Ts": "Tesalonicenses", "Tes": "Tesalonicenses", "Tm": "Timoteo", "Tim": "Timoteo",
    "Tit": "Tito", "Flm": "Filemón", "Heb": "Hebreos", "Hb": "Hebreos", "Sant": "Santiago",
    "St": "Santiago", "P": "Pedro", "Pe": "Pedro", "Jds": "Judas", "Ap": "Apocalipsis",
    "Apoc": "Apocalipsis",
}  # fmt: skip
"""Shortened books of the Bible; one letter only behind a number: 1 P 3, 15."""
MORE_BOOKS = ("Ester", "Job", "Salmos", "Cantar de los Cantares", "Abdías", "Nahúm")
NUMBERED_BOOKS = (
    "Samuel", "Reyes", "Crónicas", "Macabeos", "Corintios", "Tesalonicenses", "Timoteo", "Pedro",
    "Juan",
)  # fmt: skip


def name_book(name: str, order: int) -> str:
    """`primera de Corintios`, a letter; `primero de Samuel`, a book."""
    if not order:
        return name
    ordinal = ("primer", "segund", "tercer")[order - 1]
    return f"{ordinal}{'o' if NUMBERED_BOOKS.index(name) < 4 else 'a'} de {name}"


KEYS = {
    "Ctrl": "Control", "Cmd": "Comando", "Supr": "Suprimir", "Del": "Suprimir", "Esc": "Escape",
    "Mayús": "Mayúsculas", "May": "Mayúsculas", "Ins": "Insertar", "Tab": "Tabulador",
    "AvPág": "avance de página", "RePág": "retroceso de página", "ImpPnt": "imprimir pantalla",
    "Win": "Windows", "Opc": "Opción", "Fn": "Función", "AltGr": "Alt Gráfico",
}  # fmt: skip
KEY_WORD = "tecla"
_AT_ORDINAL = r"(?:(?<=[ºª] )|(?<=[\d.]er )|(?<=\d[edo] ))"
SHORT_FORMS = (
    ShortForm({"n.": "nota"}, lead=behind(r"[ÍíIi]d\.,", r"b[íi]d\.,", r"cit\.,"), rest=NUMBER_NEXT,
        weight=2),
    ShortForm({"ext.": "exterior", "int.": "interior"}, lead=_AT_ORDINAL, ends="any", weight=2),
    ShortForm({"Desc.": "descuento", "Dto.": "descuento"}, rest=r"(?=:? ?\d+(?:,\d+)? ?%)",
        weight=1.8, any_case=True),
    ShortForm({"p. o.": "por orden", "p. a.": "por autorización", "p. p.": "por poder",
        "P. O.": "por orden", "P. A.": "por autorización"}, rest=r"(?= del? |,| el )", weight=1.8),
    ShortForm({"gr.": "grupo", "Gr.": "Grupo"}, rest=r"(?= (?:[A-Z]\b|\d))"),
    ShortForm({"n.": "nota"}, lead=behind(r"\d y", r"\d,"), rest=NUMBER_NEXT),
    *unit_forms(UNIT_NOUNS, "el del al un por cada", "llones de, miles de"),
    ShortForm(NUMBERED, rest=NUMBER_NEXT, weight=1.3, any_case=True),
    ShortForm({key: words for key, words in CLOSERS.items() if key not in AGREEING}, ends="any",
        weight=1.15, any_case=True, acronyms=True),
    ShortForm({"Cía.": "compañía", "Cia.": "compañía"}, ends="name"),
    ShortForm({"Dir. Gral.": "Dirección General", "Dir.": "Dirección",
        "D. G.": "Dirección General"},
        lead=behind(r"\b[Ll]a"), rest=r"(?= (?:de|del) )", weight=2),
    ShortForm({"inv.": "invierno", "prim.": "primavera"}, lead=behind(r"\b[Ee]n", r"\b[Ee]l"),
        ends="any", weight=1.6),
    ShortForm({"v.": "vuelto", "r.": "recto"}, lead=behind(*(
        rf"f\. {digits}" for digits in (r"\d", r"\d\d", r"\d\d\d"))), ends="any", weight=1.8),
    ShortForm({"Hnos.": "Hermanos"}, lead=r"(?<=[a-záéó] )", rest=NAME_NEXT, weight=1.6),
    ShortForm({"ud.": "unidad"}, lead=behind(r"\b[Ll]a", r"\bcada", r"\bpor", r"\buna"),
        ends="any", weight=1.8),
    ShortForm({"esc.": "escala"}, rest=r"(?= de (?:Ric|Mer|Cel|Fah|Beau|Mo))", weight=1.8),
    ShortForm(SMALL_CLOSERS, ends="any", weight=1.3),
    ShortForm({"N.": "norte", "S.": "sur", "E.": "este", "O.": "oeste", "N": "norte", "S": "sur",
        "E": "este", "O": "oeste"}, lead=behind("latitud", "longitud", r"lat\.", r"long\."),
        ends="any"),
    ShortForm({"Cons. pref.": "consumir preferentemente"}, weight=2),
    ShortForm({"urg.": "urgencias"}, lead=behind(r"\b[Aa]", r"\b[Dd]e", r"\b[Ee]n"), ends="any",
        weight=1.6),
    ShortForm({"port.": "portería", "der.": "derecha"}, lead=behind(r"\b[Ll]a", r"\buna"),
        ends="any", weight=1.8),
    ShortForm({"dir.": "director", "dir. gral.": "director general",
        "dir. adj.": "director adjunto"}, lead=behind(r"\b[Ee]l", r"\bdel", r"\bal", r"\bun"),
        ends="title", weight=1.6),
    ShortForm({"dir.": "directora", "dir. gral.": "directora general",
        "dir. adj.": "directora adjunta"}, lead=behind(r"\b[Ll]a", r"\buna"), ends="title",
        weight=1.6),
    ShortForm(INNER, ends="title", weight=1.05, any_case=True, acronyms=True),
    ShortForm(UNITS_OF_ARMIES, lead=_AT_ORDINAL, ends="any", weight=1.6,
        any_case=True),
    ShortForm(TITLES, ends="title", weight=1.1, any_case=True),
    ShortForm({"No.": "número"}, rest=rf"{NUMBER_NEXT}(?! \d+ [{SMALL}]{{4,}}s\b)", weight=1.3),
    ShortForm({"Inf.": "infantería", "Cab.": "caballería", "Art.": "artillería"},
        lead=behind("de"), ends="any"),
    ShortForm({"c.": "calle"}, lead=behind(r"\b[Ll]a"), rest=NUMBER_NEXT),
    ShortForm({"h.": "hacia", "km": "kilómetro"}, lead=r"(?<!\d )(?<!\d)", rest=NUMBER_NEXT,
        weight=1.2),
    ShortForm({"col.": "columna", "pág.": "página"},
        rest=r"(?= (?:izq|dcha|der|centr))", any_case=True),
    ShortForm({"Sal": "salmo", "Sal.": "salmo"}, rest=r"(?= \d{1,3}(?![:\d]))", weight=1),
    ShortForm({"min.": "minuto"}, lead=behind(r"\b[Ee]l"), rest=NUMBER_NEXT, weight=1.6,
        any_case=True),
    ShortForm({"n.": "nacido"}, lead=r"(?:(?<=[,(] )|(?<=\())",
        rest=rf"(?= (?:en|el|hacia) [{CAPITAL}\d])", weight=1.8),
    ShortForm({"n.": "nacido en"}, lead=r"(?:(?<=[,(] )|(?<=\())", rest=YEAR_NEXT, weight=1.6),
    ShortForm({"pta.": "puerta"}, lead=behind(r"\b[Ll]a", r"\b[Uu]na", ","), rest=NUMBER_NEXT,
        weight=2.4),
    ShortForm({"Org.": "Orgánica"}, lead=behind("Ley"), weight=2),
    ShortForm({"alc.": "alcohol"}, rest=r"(?=:? ?\d)", weight=2, any_case=True),
    ShortForm({"cap.": "capacidad"}, rest="(?= ?:)", weight=2, any_case=True),
    ShortForm({"esc.": "escalera"}, lead="(?<=ª )", ends="any", weight=2),
    ShortForm({"pl.": "planta"}, rest=r"(?= \d{1,2}\.?ª)", weight=2),
    ShortForm({"dir.": "dirección"}, lead=behind(r"\b[Ll]a", r"\ba la"),
        rest=rf"(?= del?\b(?![^.;]{{0,40}}, [{CAPITAL}]))", weight=2),
    ShortForm({"n.": "nacido en"}, lead=r"(?<=\()", rest=rf"(?= [{CAPITAL}])"),
    ShortForm({"Min.": "ministerio"}, rest=r"(?= de )"),
    ShortForm({"rev.": "revista"}, lead=behind(r"\b[Ll]a"), ends="title", weight=1.6),
    ShortForm({"Col.": "colonia"}, lead=behind(r"\b[Ee]n", r"\b[Ll]a"), rest=NAME_NEXT,
        ends="title", weight=1.6),
    ShortForm({"Cd.": "Ciudad"}, rest=NAME_NEXT, ends="title", weight=1.4),
    ShortForm({"C. Real": "Ciudad Real"}, lead=behind(r"\bde", r"\b[Ee]n"), weight=1.8),
    ShortForm({"pts.": "pesetas"}, lead=behind(r"\bde"), ends="any", weight=1.6),
    ShortForm({"v.": "versión"}, rest=r"(?= ?\d+\.\d)", weight=1.6, any_case=True),
    ShortForm({"comp.": "comprimidos", "cáps.": "cápsulas"},
        lead=behind(r"\bdos", r"\btres", r"\bcuatro", r"\bmedio"), ends="any", weight=1.6,
        any_case=True),
    ShortForm({"vit.": "vitamina"}, rest=r"(?= (?-i:[A-K])\d{0,2}\b)", weight=1.6, any_case=True),
    ShortForm({"hab.": "habitación"}, lead=behind(r"\b[Ll]a", r"\b[Uu]na", r"\bde"),
        rest=r"(?= (?:doble|ind|triple|simple))", weight=2, any_case=True),
    ShortForm({"esc.": "escalera", "pta.": "puerta", "blq.": "bloque"},
        rest=r"(?= (?-i:[A-K])(?!\w))", any_case=True),
    ShortForm({"Sal.": "salida", "Lleg.": "llegada", "lleg.": "llegada", "sal.": "salida"},
        rest=r"(?= \d{1,2}[:.]\d\d)", weight=1.6),
    ShortForm({"pta.": "puerta"}, rest=r"(?= [A-Z]\d)", weight=1.6),
    ShortForm({"n.": "nota"}, lead=behind(r"\b[Ll]a"), rest=NUMBER_NEXT, weight=1.6),
    ShortForm({"rev.": "revisión"}, rest=r"(?= (?:en|anual|médica|del?)\b)", weight=1.6,
        any_case=True),
    ShortForm({"c/": "con "}, rest=r"(?=[a-zá-ú]{3})", weight=2),
    ShortForm({"L-V": "lunes a viernes", "L-D": "lunes a domingo", "L-S": "lunes a sábado"},
        rest=r"(?=:? )", weight=2),
    ShortForm({"c/": "cada"}, rest=r"(?= ?\d)", weight=2),
    ShortForm({"P. D.": "posdata"}, rest=r"(?=\s?:)"),
    ShortForm({"Ss.": "santos", "SS.": "santos"}, rest=rf"(?= [{CAPITAL}][{SMALL}]+ y )",
        ends="title", weight=1.6),
    ShortForm({"cte.": "corriente", "corr.": "corriente", "ppdo.": "próximo pasado"},
        lead=behind(r"\b[Dd]el", "[a-z]o"), ends="any", weight=1.6),
    ShortForm({"D. A.": "disposición adicional", "D. T.": "disposición transitoria",
        "D. F.": "disposición final", "D. D.": "disposición derogatoria"},
        rest=r"(?= ?(?:\d{1,2}\.?ª|única))", weight=2),
    ShortForm({"exp.": "experiencia"}, lead=behind(r"\bcon", r"\bsin", r"\bde"), ends="any",
        weight=1.4, any_case=True),
    ShortForm({"nec.": "necesita", "alq.": "alquila", "vend.": "vende", "ofr.": "ofrece"},
        lead=behind(r"\bSe")),
    ShortForm({"s/": "según "}, rest=r"(?=[a-zá-ú]{4})", weight=2),
    ShortForm({"u.": "unidad"}, lead=behind("precio"), ends="any", any_case=True),
    ShortForm({"V. t.": "véase también"}),
    ShortForm({"V.": "véase"}, rest=r"(?= (?:también|art\.|arts\.|nota|pág|infra|supra))"),
    ShortForm({"c. c.": "casado con"}, rest=NAME_NEXT),
    ShortForm({"pta.": "puerta"}, lead=behind(r"\b[Ll]a"), rest=rf"(?= [{SMALL}])", weight=1.8),
    ShortForm({"b.": "baños"}, lead=behind(r"\d"), rest="(?=,)", weight=1.6),
    ShortForm({"vols.": "volúmenes", "vol.": "volúmenes", "ts.": "tomos", "págs.": "páginas"},
        lead=behind(r"\d"), rest=r"(?! \d)", ends="any"),
    ShortForm({"Col.": "Colonia"},
        rest=rf"(?= [{CAPITAL}][{SMALL}]+(?: [{CAPITAL}][{SMALL}]+)*,)"),
    ShortForm({"rev.": "revisada", "corr.": "corregida", "ampl.": "ampliada"},
        lead=behind(r"ed\.", r"ed\.,", "edición", "ición,"), ends="any", weight=2),
    ShortForm({"ss.": "siguientes", "sigs.": "siguientes"}, rest=r"(?= [A-Z]{2})", weight=1.6),
    ShortForm({"en.": "enero"}, lead=behind(r"\d de"), weight=1.6),
    ShortForm({"AA. VV.": "asociación de vecinos"}, lead=behind(r"\b[Ll]a"), ends="any",
        weight=1.8),
    ShortForm({"RR. PP.": "reverendos padres", "PP.": "padres", "HH.": "hermanos"},
        rest=rf"(?= [{CAPITAL}][{SMALL}])", ends="title", weight=1.6),
    ShortForm({"vo": "vía oral", "iv": "intravenoso", "im": "intramuscular", "sc": "subcutáneo"},
        lead=behind("mg", "ml", "mcg", "día", "UI", r"\bg", r"\bh", "horas"), weight=2),
    ShortForm({"min.": "minuto", "min": "minuto"}, lead=r"(?:(?<=\()|(?<=\b[Ee]n el )|(?<=, ))",
        rest=r"(?= ?\d{1,3}\b)", weight=1.8),
    ShortForm({"Ed.": "editorial"}, rest=NAME_NEXT, ends="title", weight=1.4),
)  # fmt: skip
"""In the order in which they are tried."""
