"""French tables: abbreviations, months, acronyms, nouns and their gender."""

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
    YEAR_NEXT,
    ShortForm,
    behind,
    unit_forms,
)

MONTHS = (
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
).split()
WEEKDAYS = "lundi mardi mercredi jeudi vendredi samedi dimanche".split()
SHORT_MONTHS = {
    "janv": 1, "jan": 1, "févr": 2, "fév": 2, "fevr": 2, "fev": 2, "fevrier": 2, "mar": 3,
    "avr": 4, "juil": 7, "juill": 7, "aoû": 8, "aout": 8, "sept": 9, "sep": 9, "oct": 10,
    "nov": 11, "déc": 12, "dec": 12, "decembre": 12,
}  # fmt: skip
SHORT_WEEKDAYS = {
    "lun": 0, "mar": 1, "mer": 2, "merc": 2, "jeu": 3, "ven": 4, "vend": 4, "vendr": 4, "sam": 5,
    "dim": 6,
}  # fmt: skip
TO, AND, OVER = "à", "et", "sur"
# Before a name, with or without a full stop.
TITLES = {
    "M.": "monsieur", "MM.": "messieurs", "Mme": "madame", "Mmes": "mesdames",
    "Mlle": "mademoiselle", "Mlles": "mesdemoiselles", "Mme.": "madame", "Mlle.": "mademoiselle",
    "Mr": "monsieur", "Mr.": "monsieur", "Mrs": "messieurs", "Dr": "docteur", "Dr.": "docteur",
    "Drs": "docteurs", "Dre": "docteure", "Pr": "professeur", "Pr.": "professeur",
    "Prof.": "professeur", "Pre": "professeure", "Me": "maître", "Mes": "maîtres",
    "Vve": "veuve", "Ing.": "ingénieur",
    "Mgr": "monseigneur", "Mgr.": "monseigneur", "R. P.": "révérend père", "Rév.": "révérend",
    "Card.": "cardinal", "Fr.": "frère", "Sr": "sœur", "St": "Saint", "Ste": "Sainte",
    "Sts": "Saints", "Stes": "Saintes", "St.": "Saint", "Ste.": "Sainte",
    "frs.": "frères", "S. M.": "Sa Majesté", "S. S.": "Sa Sainteté",
    "S. A. R.": "Son Altesse Royale",
    "S. A.": "Son Altesse", "S. E.": "Son Excellence", "S. Exc.": "Son Excellence",
    "S. Ém.": "Son Éminence", "S. Em.": "Son Éminence", "LL. MM.": "Leurs Majestés",
    "LL. AA. RR.": "Leurs Altesses Royales", "N.-D.": "Notre-Dame",
    "Gal": "général", "Gén.": "général", "Gal.": "général", "Mal": "maréchal", "Col.": "colonel",
    "Cel": "colonel", "Lcl": "lieutenant-colonel", "Lt-col.": "lieutenant-colonel",
    "Lt-Col.": "lieutenant-colonel", "Cdt": "commandant", "Cdt.": "commandant",
    "Cne": "capitaine", "Cap.": "capitaine", "Capt.": "capitaine", "Lt": "lieutenant",
    "Lt.": "lieutenant", "lt.": "lieutenant", "Ltn": "lieutenant", "Slt": "sous-lieutenant",
    "S/Lt": "sous-lieutenant", "Maj.": "major", "Adj.": "adjudant", "Adc": "adjudant-chef",
    "Sgt": "sergent", "Sgt.": "sergent", "Sgc": "sergent-chef", "Cpl": "caporal",
    "Cpl.": "caporal", "Cal": "caporal", "Brig.": "brigadier", "Amal": "amiral",
    "Insp.": "inspecteur",
    "Amb.": "ambassadeur", "Prés.": "président", "Sén.": "sénateur",
    "SS.": "Saints", "Vte": "vicomte", "Ctesse": "comtesse", "RR. PP.": "révérends pères",
    "Vice-am.": "vice-amiral", "C.-am.": "contre-amiral",
    "Am.": "amiral", "Adj": "adjudant", "Adm.": "administrateur", "Éts": "établissements",
    "Ets": "établissements", "Sté": "société",
}  # fmt: skip
SMALL_RANKS = "Gal Cdt Cne Lt Sgt Cpl Lcl Slt Mgr".split()
"""Of these, those that are written small too: le gal Foch."""
HIGH = {"Hte": "Haute", "Htes": "Hautes", "Hts": "Hauts", "Bse": "Basse", "Bses": "Basses"}
"""Before the name of a place: Hte-Savoie."""
STREETS = {
    "av.": "avenue", "ave.": "avenue", "bd": "boulevard", "bd.": "boulevard", "bld": "boulevard",
    "blvd": "boulevard", "blvd.": "boulevard", "boul.": "boulevard", "pl.": "place",
    "rte": "route", "rte.": "route", "imp.": "impasse", "fg": "faubourg", "fbg": "faubourg",
    "ch.": "chemin", "chem.": "chemin", "all.": "allée", "sq.": "square", "aven.": "avenue",
    "r.": "rue", "q.": "quai", "rés.": "résidence", "lot.": "lotissement",
}  # fmt: skip
# Before a number.
NUMBERED = {
    "suppl.": "supplément", "ap.": "après",
    "op.": "opus", "doss.": "dossier", "lat.": "latitude", "long.": "longitude",
    "pop.": "population", "décr.": "décret", "décis.": "décision",
    "p.": "page", "pp.": "pages", "pg.": "page", "n°": "numéro", "n º": "numéro", "no": "numéro",
    "no.": "numéro", "n.": "numéro", "n°s": "numéros", "num.": "numéro",
    "chap.": "chapitre", "ch.": "chapitre", "vol.": "volume", "t.": "tome", "art.": "article",
    "al.": "alinéa", "fig.": "figure", "figs.": "figures", "tél.": "téléphone",
    "tel.": "téléphone", "tél": "téléphone", "env.": "environ", "max.": "maximum",
    "min.": "minimum", "éd.": "édition", "ex.": "exemple", "réf.": "référence", "ca": "circa",
    "v.": "vers", "app.": "appartement", "appt": "appartement", "appt.": "appartement",
    "apt.": "appartement", "bât.": "bâtiment", "sect.": "section",
    "approx.": "approximativement", "tab.": "tableau", "cf.": "confer", "#": "numéro",
    "ép.": "épisode", "pl.": "planche", "vers.": "version", "alt.": "altitude",
    "temp.": "température", "§": "paragraphe", "§§": "paragraphes", "ét.": "étage",
    "esc.": "escalier", "arr.": "arrondissement", "par.": "paragraphe", "éq.": "équation",
    "sc.": "scène", "th.": "thermostat", "prof.": "profondeur", "dépt": "département",
    "liv.": "livre", "fol.": "folio", "f°": "folio", "ff.": "folios", "req.": "requête",
    "leuco.": "leucocytes", "bur.": "bureau", "inv.": "inventaire",
    "vit.": "vitesse",
    "voit.": "voiture", "tabl.": "tableau", "arts.": "articles",
    "chaps.": "chapitres", "vols.": "volumes",
    "col.": "colonne", "feuil.": "feuillet", "exerc.": "exercice",
    "ill.": "illustration", "concl.": "conclusion", "cons.": "considérant",
    "délib.": "délibération",
}  # fmt: skip
# May be the last word of a sentence.
CLOSERS = {
    "à déb.": "à débattre", "slt.": "seulement", "angl.": "anglais",
    "ibid.": "ibidem", "ib.": "ibidem", "id.": "idem",
    "etc.": "et cetera", "etc": "et cetera", "env.": "environ", "S. A.": "société anonyme",
    "S.A": "société anonyme", "S. A. R. L.": "société à responsabilité limitée",
    "S. A. S.": "société par actions simplifiée", "Cie": "compagnie", "Cie.": "compagnie",
    "s. v. p.": "s'il vous plaît", "svp": "s'il vous plaît", "s. t. p.": "s'il te plaît",
    "stp": "s'il te plaît", "É.-U.": "États-Unis", "E.-U.": "États-Unis",
    "É.-U. A.": "États-Unis d'Amérique", "R.-U.": "Royaume-Uni",
    "N.-E.": "nord-est", "N.-O.": "nord-ouest", "S.-E.": "sud-est", "S.-O.": "sud-ouest",
    "G.-B.": "Grande-Bretagne",
    "hab.": "habitants",
    "arr.": "arrondissement", "éd.": "édition", "qqch.": "quelque chose", "ouv.": "ouvert",
    "suppl.": "supplément", "sqq.": "et suivantes", "sq.": "et suivante", "ss.": "suivantes",
    "c. c.": "charges comprises", "h. c.": "hors charges", "H. T.": "hors taxes",
    "T. T. C.": "toutes taxes comprises", "tél.": "téléphone", "bât.": "bâtiment",
    "incl.": "inclus", "max.": "maximum", "min.": "minimum", "ann.": "annexe",
    "ap.": "après", "moy.": "moyenne", "alt.": "altitude", "pers.": "personnes",
    "s.p.": "sur penalty", "enf.": "enfants", "p.-v.": "procès-verbal",
    "conv. coll.": "convention collective",
    "C. Q. F. D.": "ce qu'il fallait démontrer",
}  # fmt: skip
# The same, written small only.
SMALL_CLOSERS = {
    "i. v.": "intraveineuse", "i. m.": "intramusculaire", "s. c.": "sous-cutanée",
    "s. d.": "sans date", "s. l.": "sans lieu", "s. l. n. d.": "sans lieu ni date",
    "n. s.": "nouvelle série",
}  # fmt: skip
# A capital behind them begins no sentence.
INNER = {
    "asst.": "assistant", "attn.": "attention", "gram.": "grammaire", "auj.": "aujourd'hui",
    "conj.": "conjonction", "majusc.": "majuscule", "minusc.": "minuscule",
    "R.-V.": "rendez-vous", "nouv. éd.": "nouvelle édition", "b. état": "bon état",
    "t. b. état": "très bon état", "s. d. b.": "salle de bains", "rdc": "rez-de-chaussée",
    "r.-d.-c.": "rez-de-chaussée", "cde": "commande", "cdes": "commandes",
    "p. ex.": "par exemple", "p.ex": "par exemple", "par ex.": "par exemple",
    "c.-à-d.": "c'est-à-dire", "c.à.d.": "c'est-à-dire", "c. à d.": "c'est-à-dire",
    "càd": "c'est-à-dire", "c-à-d": "c'est-à-dire", "i. e.": "c'est-à-dire",
    "e. g.": "par exemple", "cf.": "confer", "cf": "confer", "n°": "numéro",
    "tél": "téléphone", "approx.": "approximativement", "RDV": "rendez-vous",
    "rdv": "rendez-vous", "P.-S.": "post-scriptum", "P. S.": "post-scriptum",
    "N. B.": "nota bene", "vs": "versus", "vs.": "versus", "apr.": "après",
    "dép.": "département", "dépt": "département", "gouv.": "gouvernement",
    "univ.": "université", "chap.": "chapitre", "fig.": "figure", "réf.": "référence",
    "ndlr": "note de la rédaction", "N.D.L.R.": "note de la rédaction",
    "n. d. t.": "note du traducteur",
    "op. cit.": "opere citato", "dir.": "direction", "coll.": "collection",
    "trad.": "traduction", "qqch": "quelque chose", "qqn": "quelqu'un", "tjrs": "toujours",
    "bcp": "beaucoup", "pb": "problème", "resp.": "respectivement", "adr.": "adresse",
    "add.": "addition", "et/ou": "et ou", "pp.": "pages", "R.A.S.": "rien à signaler",
    "c/o": "aux bons soins de", "qté": "quantité", "temp.": "température",
    "secr. gén.": "secrétaire général", "décr.": "décret", "doss.": "dossier",
    "lt-col.": "lieutenant-colonel", "t°": "température", "avoc.": "avocat",
    "sdb": "salle de bains",
    "sdb.": "salle de bains", "vds": "vends", "pdt": "pendant", "qd": "quand",
    "p.-déj.": "petit-déjeuner", "pt-déj.": "petit-déjeuner", "préf.": "préfecture",
    "sous-préf.": "sous-préfecture", "C. pén.": "Code pénal",
    "term.": "terminal", "pte": "porte", "emb.": "embarquement", "décoll.": "décollage",
    "bag.": "bagages", "mél.": "mélange", "rééd.": "réédition",
    "pat.": "patient", "trt": "traitement", "slt": "seulement",
    "adm. fisc.": "administration fiscale", "adm.": "administration",
    "C. route": "Code de la route", "C. pr. civ.": "Code de procédure civile",
    "C. proc. civ.": "Code de procédure civile", "C. proc. pén.": "Code de procédure pénale",
    "C. pr. pén.": "Code de procédure pénale", "C. sécu. soc.": "Code de la sécurité sociale",
    "C. éduc.": "Code de l'éducation", "C. env.": "Code de l'environnement",
    "C. santé publ.": "Code de la santé publique", "C. élect.": "Code électoral",
    "C. mon. fin.": "Code monétaire et financier", "ms.": "manuscrit", "mss.": "manuscrits",
    "ms. fr.": "manuscrit français", "ms. lat.": "manuscrit latin", "anc.": "ancien",
    "adj.": "adjectif", "adv.": "adverbe", "subst.": "substantif", "masc.": "masculin",
    "fém.": "féminin", "sing.": "singulier", "plur.": "pluriel", "lat.": "latin",
    "égal.": "également", "civ.": "civil", "ital.": "italien", "esp.": "espagnol",
    "m. à j.": "mise à jour", "nvx": "nouveaux", "nvelle": "nouvelle",
    "C. civ.": "Code civil", "C. com.": "Code de commerce", "C. trav.": "Code du travail",
    "C. rur.": "Code rural", "C. consom.": "Code de la consommation", "C. assur.":
    "Code des assurances", "C. urb.": "Code de l'urbanisme", "Cass. civ.": "Cassation civile",
    "Cass. com.": "Cassation commerciale", "Cass. soc.": "Cassation sociale",
    "Cass. crim.": "Cassation criminelle", "A/R": "aller-retour",
    "prép.": "préparation", "dispo.": "disponible", "échal.": "échalotes", "ingr.": "ingrédients",
    "dens.": "densité", "obs.": "observations", "not.": "notamment", "bibl.": "bibliothèque",
    "cat.": "catalogue", "mod.": "modèle", "nat.": "national",
    "intern.": "international", "rens.": "renseignements", "sté.": "société",
    "tjs": "toujours", "tps": "temps", "ttes": "toutes", "nbx": "nombreux",
    "qualif.": "qualification", "réun.": "réunion", "soc.": "société",
    "appt": "appartement", "appart.": "appartement", "ttt": "traitement", "ds": "dans",
    "in-8°": "in-octavo", "in-4°": "in-quarto", "in-f°": "in-folio",
    "hist.-géo.": "histoire-géographie", "franç.": "français", "parag.": "paragraphe",
    "qq.": "quelques",
    "qqs": "quelques",
}  # fmt: skip
# Cut short before a vowel, wherever people like: rés., réserv. Adjectives agree.
CLIPPED = (
    "dilatation absolu chimie chrétien coefficient conjugaison critique dérivé déterminant "
    "domicile économie "
    "élément encyclopédie étymologie événement expression géologie impersonnel interjection langue "
    "largeur majuscule mondial morphologie mythologie nombre objet opposé participe physique "
    "poétique pronom psychologie sciences suivant synonyme transitif vulgaire zoologie initiale "
    "remise décision administration annexe appartement arrondissement bibliothèque catalogue "
    "chapitre "
    "circonscription collection commission comparaison conseil correspondance département "
    "dimensions direction document édition expérience habitants illustration industrie "
    "information inspecteur institut juridiction livre localité manuscrit matin médecine médecin "
    "ministère modèle musée note occasion office ordinaire paragraphe préfecture président "
    "principe procédure produit professeur propriété publication question recommandation "
    "référence règlement réponse résidence revue secrétaire semaine spécialité station supplément "
    "technique téléphone terrain tribunal version volume abréviation abonnement accessoires "
    "accompagnement acompte activité actualité adaptation addition adjectif administrateur "
    "adresse agence agglomération agriculture alimentation allocation altitude ambassadeur "
    "aménagement amendement analyse animation anniversaire annonce annuaire antibiotique "
    "antiquité apôtres appareil application appréciation approbation approximation architecture "
    "argument arrivée article ascenseur assistance association assurance atelier attention "
    "attribution augmentation auteur autorisation autoroute avenue balcon bataillon bâtiment "
    "bibliographie biologie boulevard brigadier bulletin bureau cabinet calculatrice campagne "
    "candidat capacité caractéristiques cardinal carrefour catégorie cathédrale cavalerie "
    "certificat chambre chapelle charges chauffage chemin chirurgie chirurgien circulaire "
    "circulation civilisation classification clientèle collaboration collège comité commandement "
    "commande commentaire commerce commissaire communication communauté commune compagnie "
    "compétition complément composition comprimés comptabilité condition conférence confirmation "
    "congélateur conseiller conservation consommation constitution construction consultation "
    "contact contenance contrat contribution conversation coopérative coordonnées copropriété "
    "correction couverture créance cuisine cuillerée cuillère déclaration décoration décret "
    "définition degré délégation délibération demande démonstration départ dépense dépôt député "
    "description destinataire développement diamètre dictionnaire diététique différence "
    "difficulté dimension diplôme directeur discipline disponibilité disposition distance "
    "distribution division documentation dossier durée échalote économie écriture édifice éditeur "
    "éditions éducation effectif élections électricité électronique emballage embarquement emploi "
    "employé enregistrement enseignement entreprise entretien environnement épisode équipement "
    "équivalent escalier établissement étage étudiant évaluation évêque examen exception "
    "exemplaire exercice expérience explication exploitation exportation exposition extension "
    "extrait fabrication faculté facture famille fascicule fédération feuillet fichier figure "
    "finance fonction fonctionnaire fondation formation formulaire fourniture fréquence garage "
    "génération géographie géométrie gestion gouvernement gouverneur graduation grammaire "
    "graphique gratification histoire honoraires hôpital horaires horizon hypothèse "
    "identification illustrations image immeuble importation imprimerie inauguration indemnité "
    "index indication infanterie informatique ingénieur ingrédients inscription inspection "
    "installation instituteur institution instruction intérieur interprétation introduction "
    "inventaire invitation jardin journal jurisprudence justification laboratoire lecture "
    "législation lettre librairie licence ligne liquidation littérature livraison location "
    "logement longueur magasin manutention mathématiques matériel matière maximum mécanique "
    "médicament mensuel méridional message mesure méthode ministre minimum modalités modification "
    "monastère monument mouvement municipalité musique naissance négociation notaire notification "
    "numéro obligation observation occupation officier opération option ordinateur ordonnance "
    "organisation orientation origine orthographe ouverture ouvrage pagination papeterie paroisse "
    "participation passage patient patrimoine pavillon pension pharmacie philosophie photographie "
    "planche politique population portefeuille position possibilité pourcentage précaution "
    "préface préfet préparation présentation prestation principal probabilité processeur "
    "production profession profondeur programme projet promotion proportion propriétaire "
    "protection province publicité qualification qualité quantité questionnaire radiographie "
    "réalisation réception recette réclamation reconnaissance recrutement rédaction réduction "
    "régime régiment région registre remarque remboursement renseignement renseignements "
    "répartition réparation reproduction république requête réservation résolution responsable "
    "restauration résultat résumé réunion revenu révision roman salaire saison scénario science "
    "secondaire secrétariat section sécurité semestre séminaire sénateur séparation série service "
    "session siècle signature situation société solution sortie soupape spécification spectacle "
    "statistique stationnement structure subdivision substantif suffixe superficie supérieur "
    "surface symbole système tableau taille technologie télévision température terminaison "
    "soldat territoire théâtre théorie thermostat titulaire tome traduction traducteur traitement "
    "transfert transformation transport travaux trimestre unité université utilisation vacances "
    "validation valeur variable variation végétation véhicule vélocité vendeur ventilation "
    "vérification verset vestiaire vêtement vétérinaire vigueur visibilité visite vitamine "
    "vitesse vocabulaire voiture volontaire voyage "
    "absence accident accord achat adhérent admission agrément allocataire ampoule anecdote "
    "apprentissage arbitrage artisan assemblée attestation audience autonomie avertissement "
    "baccalauréat bagage baptême bénéfice bénéficiaire bénévole biographie brevet brochure budget "
    "calendrier canton capitaine catalogue cérémonie championnat chapitre chronologie coefficient "
    "collaborateur colonel colonie compétence compréhension conclusion concours confiture "
    "connaissance conséquence consigne constat contentieux contravention convention convocation "
    "coordination cotisation crédit croisement dénomination dermatologie desserte développement "
    "diagnostic dialogue directive dispense dispositif dissertation docteur doctorat domicile "
    "dramaturge échange échéance éclairage effet égalité élève émission énergie enquête enseigne "
    "entrée enveloppe équation équivalence espérance essence étude étymologie événement évolution "
    "excursion exécution expédition expert filiale fréquentation gendarmerie glossaire gravure "
    "groupe habitation hebdomadaire héritage hypothèque inauguration indice infirmerie initiative "
    "innovation intervention introduction investissement itinéraire journal journée législature "
    "lexique liaison localité magistrat maintenance maladie mandat manuscrit marchandise mémoire "
    "menuiserie métallurgie moniteur motivation municipalité nationalité navigation nomenclature "
    "objectif observatoire oncologie opposition orchestre orientation parcelle parenthèse "
    "parlement "
    "pédiatrie permanence personne personnel perspective pharmacien photo physiologie plaidoirie "
    "plantation poésie pourvoi prédiction prélèvement prescription présidence président prévision "
    "prévoyance procès procuration prologue pronom pronostic prononciation protocole "
    "psychologie quartier rapport réception récépissé rectification référendum refuge régiment "
    "relation rémunération reprise rétroaction rubrique sacrement salarié sanction scrutin "
    "secteur sénat signalisation sommaire soustraction souvenir stage stratégie succursale suite "
    "suppression syndicat synonyme synthèse tarif témoin tempête tension titre topographie total "
    "paracétamol amoxicilline ibuprofène antalgique tribune unité urbanisme vaccination "
    "vigilance virement voyageur"
).split()
CLIPPED_ADJECTIVES = (
    "complet individuel augmenté revu corrigé aménagé ancien annuel antérieur automatique "
    "catégoriel "
    "civil commercial complémentaire électrique électronique encadré équipé estimatif exclusif "
    "exceptionnel facultatif fluvial général gratuit historique hebdomadaire illustré impossible "
    "indépendant industriel inférieur international juridique limité littéraire maritime médical "
    "mensuel meublé militaire municipal national normal obligatoire occasionnel ordinaire "
    "original particulier politique populaire possible privé professionnel provisoire public "
    "recommandé régional religieux rénové révisé scientifique scolaire solaire supérieur "
    "supplémentaire technique universitaire urgent valable"
).split()
WORDS_LIKE_CLIPPED = frozenset(
    (
        "par car mer fin son ton mon bas pas cas sac mal vol dur pur bon mur soir mort part port "
        "fort tard vent"
    ).split()
)
"""Words of their own that a sentence written without capitals may end in."""
# Of an army, behind an ordinal.
UNITS_OF_ARMIES = {
    "bat.": "bataillon", "bon": "bataillon", "div.": "division", "rég.": "régiment",
    "rgt": "régiment", "brig.": "brigade", "cie": "compagnie", "esc.": "escadron",
    "arr.": "arrondissement", "arrt": "arrondissement", "ét.": "étage", "éd.": "édition",
    "min.": "minute", "ch.": "chambre", "h.": "heure",
    "mouv.": "mouvement", "st.": "station", "trim.": "trimestre", "sem.": "semaine",
}  # fmt: skip
LEADING = tuple(key for key in STREETS if len(key) > 3)
PLAIN_FORMS = (*HIGH, *(rank.lower() for rank in SMALL_RANKS), *STREETS)
"""More forms that need no full stop."""
REPUBLICAN_MONTHS = {
    "vend.": "vendémiaire", "brum.": "brumaire", "frim.": "frimaire", "niv.": "nivôse",
    "pluv.": "pluviôse", "vent.": "ventôse", "germ.": "germinal", "flor.": "floréal",
    "prair.": "prairial", "mess.": "messidor", "therm.": "thermidor", "fruct.": "fructidor",
}  # fmt: skip
UNIT_NOUNS = {
    "km": "kilomètre", "kg": "kilo", "cm": "centimètre", "m²": "mètre carré",
    "kWh": "kilowattheure",
    "ha": "hectare", "Mo": "mégaoctet", "Go": "gigaoctet",
}  # fmt: skip
AGREEING = {"max.": "maxim", "min.": "minim"}
# Units, currencies, millions, and what stands behind a slash.
UNITS = {
    **SHARED_UNITS, "mn": "duration-minute", "sec": "duration-second", "j": "duration-day",
    "sem.": "duration-week", "sem": "duration-week",
    **{f"{short}io": f"{prefix}+digital-byte"
       for short, prefix in zip("KMGTP", "kibi mebi gibi tebi pebi".split(), strict=True)},
    "Po": "peta+digital-byte", "Eo": "exa+digital-byte", "mcg": "mass-microgram",
    "ch": "horsepower", "o": "digital-byte", "ko": "digital-kilobyte",
    "Ko": "digital-kilobyte", "Mo": "digital-megabyte", "Go": "digital-gigabyte",
    "To": "digital-terabyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte",
    "TB": "terabyte", "bars": "bar", "tr/min": "turn-per-minute", "p.": "page", "pp.": "page",
    "pages": "page", "ans": "year", "pts": "point", "pi": "length-foot", "po": "length-inch",
    "c. à s.": "volume-tablespoon", "c. à soupe": "volume-tablespoon",
    "c. à c.": "volume-teaspoon", "c. à café": "volume-teaspoon", "cs": "volume-tablespoon",
    "càs": "volume-tablespoon", "càc": "volume-teaspoon", "cuil. à s.": "volume-tablespoon",
    "cuil. à c.": "volume-teaspoon", "cc": "volume-teaspoon", "qx": "quintal", "cts": "cent",
    "cts.": "cent", "comp.": "tablet", "cp": "tablet", "cp.": "tablet", "pces": "piece",
    "pces.": "piece", "bpm": "beat-per-minute", "gttes": "drop", "amp.": "vial",
    "gél.": "capsule", "c. s.": "volume-tablespoon", "cuil. à soupe": "volume-tablespoon",
    "cuil. à café": "volume-teaspoon", "c. soupe": "volume-tablespoon",
    "c. café": "volume-teaspoon", "nds": "speed-knot",
    "i/s": "frame-per-second", "im/s": "frame-per-second",
    "r.p.m.": "revolution-per-minute", "pt": "point",
    "ips": "frame-per-second", "pb": "basis-point", "pbs": "basis-point",
    "UI": "international-unit", "U.I.": "international-unit", "cps": "tablet",
}  # fmt: skip
SIGNS = {
    **SHARED_SIGNS, "dollars": "USD", "Fr.": "francs", "F": "francs", "FF": "francs",
    "frs": "francs", "fr.": "francs",
    "francs": "francs", "FCFA": "XOF", "XOF": "XOF", "MAD": "MAD", "TND": "TND", "DZD": "DZD",
    "livres sterling": "GBP",
}  # fmt: skip
SCALES = {
    "millions": 6, "million": 6, "milliards": 9, "milliard": 9, "billions": 12, "mille": 3,
    "Mds": 9, "Md": 9, "Mrds": 9, "Mrd": 9, "M": 6, "k": 3, "K": 3,
}  # fmt: skip
PER_WORDS = {
    "mois": "par mois", "année": "par an", "an": "par an", "jour": "par jour",
    "semaine": "par semaine", "heure": "par heure", "min": "par minute", "min.": "par minute",
    "j": "par jour", "j.": "par jour", "kilo": "par kilo", "litre": "par litre",
    "personne": "par personne", "pers.": "par personne", "pers": "par personne",
    "nuit": "par nuit", "pièce": "pièce", "unité": "l'unité", "minute": "par minute",
    "tonne": "par tonne", "trimestre": "par trimestre", "baril": "le baril",
    "utilisateur": "par utilisateur", "élève": "par élève",
}  # fmt: skip
STARTERS = frozenset(
    "merci le la les l un une des il elle ils elles on je tu nous vous ce c cet cette ces cela "
    "ça mais et ou non oui quand comme si en après avant puis alors son sa ses mon ma mes "
    "notre nos votre vos leur leurs que qui quoi pour dans voilà voici au aux du de d à "
    "par avec sans chez vers depuis pendant hier demain aujourd maintenant ici là tout "
    "tous toute toutes chaque aucun personne rien plus moins très bien enfin ensuite "
    "cependant pourtant donc car or ni ne y où comment pourquoi j qu s n m t lorsque "
    "puisque quelques plusieurs beaucoup deux trois autre autres même selon malgré sur "
    "sous entre contre jusque servez servir mélangez ajoutez écrivez appelez voir voyez "
    "est était".split()
)
SPOKEN_ACRONYMS = frozenset(
    "CAC ONU OTAN UNESCO UNICEF NASA FIFA UEFA SIDA OVNI INSEE SMIC CAF CROUS ENA FNAC LED PIN RAM "
    "SIM OPEP PACS COVID SARS CEDEX DOM TOM ZUP ZAC SAMU CNIL GIEC MEDEF URSSAF UNEDIC ARTE IKEA "
    "LASER RADAR ROM ZEP TIC BAC OPA LOL NATO WIFI LEGO SEPA INRA INRAE INSERM CAPES DASS FED SEB "
    "AGIRC ARRCO SACEM EHPAD BAFA LIDAR SWIFT ERASMUS ALENA FAO SOFRES IFOP CREDOC GIF PISA TAFTA "
    "ASEAN AMAP ASSEDIC".split()
)
SPELLED_ACRONYMS = frozenset(
    "OCDE ANPE UE USA CIA AOC IEEE EE AIEA ADSL URSS OMC OACI UMP CE CHU EHESS SARL SPA".split()
)
PLAIN_WORDS = frozenset(
    "A À AU AUX AS AI ART BAL BEL BAS BON CAR CAS CE CES CET CI DE DES DIT DU DIX DOS EAU "
    "ELLE EN ES EST ET EU EUX FEU FIN FOI FUT HUIT ICI IL ILS JE JEU LA LÀ LE LES LEUR LIT "
    "LOI LUI MA MAI MAL MER MES MOI MON MOT NE NI NON NOS NOUS NU OU OÙ ON OR OUI PAR PAS "
    "PEU PLUS POUR QUE QUI ROI SA SANS SE SEL SES SI SIX SOI SOL SON SUD SUR TA TE TES TOI "
    "TON TOUT TU UN UNE VA VIE VOS VOUS VU Y OK AH OH EH OUEST NORD".split()
)
FULL_ACRONYMS = {
    "RDV": "rendez-vous", "SVP": "s'il vous plaît", "NB": "nota bene", "RAS": "rien à signaler",
    "STP": "s'il te plaît",
}  # fmt: skip
# Before a Roman numeral that is read as a plain number.
COUNTED = (
    "chapitre tome volume livre partie titre acte scène annexe appendice section phase "
    "niveau tableau figure planche degré type classe groupe chant épisode saison article "
    "leçon unité thème module étape série apollo plan division numéro psaume sonnet bloc "
    "semestre trimestre factum mark rocky wars"
).split()
QUEENS: frozenset[str] = frozenset()
KINGS = frozenset(
    "louis charles henri françois philippe jean napoléon robert hugues guillaume édouard "
    "georges jacques richard albert léopold baudouin pie léon grégoire benoît clément "
    "innocent urbain sixte jules adrien boniface nicolas eugène paul alexandre pierre "
    "catherine élisabeth elisabeth marie anne christine frédéric joseph ferdinand alphonse "
    "isabelle maximilien othon rodolphe ivan gustave christian harald olaf ramsès ptolémée "
    "darius xerxès constantin théodose justinien michel basile hassan mohammed soliman "
    "rainier victor humbert carlos juan felipe amédée étienne martin célestin honorius "
    "thoutmôsis aménophis antiochos séleucos mithridate lothaire pépin clovis childebert "
    "dagobert thierry clotaire béla sigismond ladislas casimir stanislas cléopâtre "
    "vittorio marguerite wilhelmine juliana jeanne".split()
)
# A number behind one of these is its name: page un, chambre deux cent.
LABELS = frozenset(
    "page pages chapitre chapitres numéro n° chambre salle porte ligne tome volume figure tableau "
    "article niveau phase groupe version leçon unité exercice étape étage vol canal bus tram quai "
    "voie section annexe rue avenue place code note classe épisode saison partie appartement "
    "bâtiment bloc case table édition acte scène question règle option zone gate terminal".split()
)
# Words that may follow a number without being counted by it.
NO_NOUN = frozenset(
    "de du des et ou plus moins est sont en à par avec pour que au la le les".split()
)
_FEMININE = frozenset(
    "page heure minute seconde personne fois femme fille année semaine journée maison "
    "voiture chose table rue route ville place ligne lettre école tasse pomme photo image "
    "part nuit main mer fin voix fleur couleur douzaine tonne pièce porte chaise bouteille "
    "feuille famille classe équipe langue carte clé clef nation région île église banque "
    "boîte chambre fenêtre cuisine robe chemise veste chaussure montre bague étoile "
    "planète lune vache poule chèvre souris abeille orange banane poire tomate carotte "
    "salade tarte crêpe glace bière eau recette cuillère cuillerée tranche œuvre histoire "
    "phrase réponse question demande idée loi règle note piste plage montagne rivière "
    "forêt ferme usine entreprise société vie guerre bataille armée arme balle bombe "
    "victime blessure jambe dent oreille peau tête marche étape course victoire défaite "
    "partie manche médaille coupe once raison leçon façon chanson boisson saison prison "
    "dimension sœur mère tante nièce cousine amie copine étudiante reine princesse dame "
    "demoiselle paire dizaine quinzaine vingtaine trentaine centaine voie gare station "
    "rame ampoule lampe machine roue moto pilule dose goutte toile peinture statue "
    "cathédrale chaîne émission série scène danse croix noix perdrix brebis fourmi jument "
    "dinde truite huître crevette moule commune province capitale frontière campagne rose "
    "branche racine graine herbe pierre perle brique planche vis corde ficelle ceinture "
    "poche jupe cravate écharpe casquette valise enveloppe adresse annonce affiche liste "
    "case colonne rangée touche fraise cerise framboise noisette amande olive pizza "
    "fourchette assiette bougie allumette cigarette vitesse profondeur hauteur largeur "
    "longueur valeur pression charge taille température temp".split()
)
_FEMININE_END = LazyPattern(
    r"(?:tion|sion|xion|aison|ette|elle|esse|ence|ance|ure|ude|ade|euse|trice|ille|ine|ée|ie|ité|"
    r"eté|erie|aine|ière|une|enne|onne|ise|ouche|otte|euille|anne|ole|ule|ogue|[lntv]ue)$"
)
_MASCULINE = frozenset(
    "musée lycée trophée apogée génie incendie parapluie foie magazine mercure murmure "
    "domaine capitaine silence carbone téléphone portefeuille chèvrefeuille stade grade "
    "pétrole symbole rôle contrôle monopole module véhicule siècle comité comté côté été "
    "traité pâté dialogue catalogue psychologue squelette gorille volatile parfum "
    "moustique kiosque masque disque risque casque article million milliard pays mois cas "
    "temps enfant homme mort jaune jour an soir matin élève collègue âge stage village voyage "
    "nuage "
    "message "
    "fromage visage garage mariage étage cimetière derrière arrière mille quadrilatère "
    "mystère magasin cousin morts".split()
)


def pluralize(noun: str) -> str:
    return noun if noun.endswith(("s", "x", "z")) else f"{noun}s"


@lru_cache(maxsize=4096)
def find_gender(noun: str) -> str:
    """The gender that a noun most likely has, by lists and by its ending."""
    word = noun.lower()
    known = word in _FEMININE or word in _MASCULINE
    singular = word[:-1] if word.endswith("s") and not known else word
    if singular in _MASCULINE:
        return "m"
    return "f" if singular in _FEMININE or _FEMININE_END.search(singular) else "m"


BOOKS = {
    "Gn": "Genèse", "Gen": "Genèse", "Ex": "Exode", "Lv": "Lévitique", "Nb": "Nombres",
    "Dt": "Deutéronome", "Jos": "Josué", "Jg": "Juges", "Rt": "Ruth", "S": "Samuel",
    "Sam": "Samuel", "R": "Rois", "Ch": "Chroniques", "Ne": "Néhémie", "Jb": "Job",
    "Ps": "Psaume", "Pr": "Proverbes", "Prov": "Proverbes", "Qo": "Qohéleth",
    "Ec": "Ecclésiaste", "Ct": "Cantique", "Is": "Isaïe", "És": "Ésaïe", "Jr": "Jérémie",
    "Lm": "Lamentations", "Ez": "Ézéchiel", "Éz": "Ézéchiel", "Dn": "Daniel", "Os": "Osée",
    "Jl": "Joël", "Am": "Amos", "Jon": "Jonas", "Mi": "Michée", "Ha": "Habacuc",
    "So": "Sophonie", "Ag": "Aggée", "Za": "Zacharie", "Ml": "Malachie", "M": "Maccabées",
    "Mt": "Matthieu", "Mc": "Marc", "Lc": "Luc", "Jn": "Jean", "Ac": "Actes", "Rm": "Romains",
    "Co": "Corinthiens", "Cor": "Corinthiens", "Ga": "Galates", "Gal": "Galates",
    "Ep": "Éphésiens", "Ép": "Éphésiens", "Ph": "Philippiens", "Phil": "Philippiens",
    "Col": "Colossiens", "Th": "Thessaloniciens", "Tm": "Timothée", "Tim": "Timothée",
    "Tt": "Tite", "Phm": "Philémon", "He": "Hébreux", "Hé": "Hébreux", "Jc": "Jacques",
    "P": "Pierre", "Pi": "Pierre", "Jd": "Jude", "Ap": "Apocalypse",
}  # fmt: skip
"""Shortened books of the Bible; one letter only behind a number: 1 P 3, 15."""
MORE_BOOKS = ("Esther", "Psaumes", "Cantique des Cantiques", "Abdias", "Nahum", "Esdras")
NUMBERED_BOOKS = {
    "Samuel": "livre de Samuel", "Rois": "livre des Rois", "Chroniques": "livre des Chroniques",
    "Maccabées": "livre des Maccabées", "Corinthiens": "lettre aux Corinthiens",
    "Thessaloniciens": "lettre aux Thessaloniciens", "Timothée": "lettre à Timothée",
    "Pierre": "lettre de Pierre", "Jean": "lettre de Jean",
}  # fmt: skip


def name_book(name: str, order: int) -> str:
    """`première lettre aux Corinthiens`."""
    if not order:
        return name
    title = NUMBERED_BOOKS.get(name, f"livre {name}")
    first = "première" if title.startswith("lettre") else "premier"
    return f"{(first, 'deuxième', 'troisième')[order - 1]} {title}"


KEYS = {
    "Ctrl": "Contrôle", "Cmd": "Commande", "Suppr": "Supprimer", "Del": "Supprimer",
    "Échap": "Échappement", "Echap": "Échappement", "Esc": "Échappement", "Maj": "Majuscule",
    "Ins": "Insertion", "Inser": "Insertion", "Tab": "Tabulation", "Impr": "Impression",
    "Win": "Windows", "Opt": "Option", "Fn": "Fonction", "AltGr": "Alt Graphique",
}  # fmt: skip
KEY_WORD = "touche"
_AT_ORDINAL = (
    r"(?:(?<=[ºª] )|(?<=[\d.]er )|(?<=[\dI]re )|(?<=\d[edo] )|(?<=\dème )|(?<=[IVX]e )|(?<=Ier ))"
)
_OPENING = (
    rf"(?! (?-i:(?:{'|'.join(sorted(word.capitalize() for word in STARTERS))})(?:\b|') [a-zà-ÿ]))"
)
"""A word that opens sentences, and a small one: Dr. Il vint."""
_NAMED = rf"{_OPENING}(?= (?:[{CAPITAL}]|l[ea]s? |et |l'|d[eu] |des |d')|-)"
_ALWAYS = ("Mme", "Mlle", "Mmes", "Mlles")
_DOTTED = {key: words for key, words in TITLES.items() if key.endswith(".")}
_SMALL_TITLES = {
    key.lower(): words for key, words in _DOTTED.items() if re.match(r"[^\W\d_]{3,}\.", key)
}
"""Ranks are written small too: le col. Blanc."""
_RANKED = behind(r"\b[Ll]e", r"\b[Dd]u", r"\b[Aa]u", r"\b[Uu]n")
SHORT_FORMS = (
    ShortForm({"fac.": "faculté", "Fac.": "faculté"}, rest=r"(?= (?:de|des|du)\b| d')", weight=1.8),
    ShortForm({"réd.": "réduit", "Réd.": "Réduit"}, lead=r"(?:(?<=\()|(?<=€, )|"
                                                         r"(?<=€ / ))", rest=r"(?= ?:)",
        weight=2),
    ShortForm({"Vve": "veuve"}, lead=behind(r"\b[Ss]a", r"\b[Ll]a", r"\b[Uu]ne"), weight=1.6),
    ShortForm({"V.": "voir"}, rest=r"(?= (?:Cass|CE|Cons\.|CA|Civ|Soc|Com|Crim|TGI)(?!\w{4}))",
        weight=1.8),
    ShortForm({"Pdt": "président", "Pdte": "présidente", "Pdt.": "président"}, weight=1.8),
    ShortForm({"Sté": "société", "Stés": "sociétés"}, weight=1.6),
    ShortForm({"Rép.": "République"}, lead=rf"(?:{_AT_ORDINAL}|(?<=\b[Ll]a ))", ends="any",
        weight=2),
    ShortForm({"arr.": "arrêté"}, rest=r"(?= (?:n°|no |préf|min|mun|roy|du \d))", weight=2,
        any_case=True),
    ShortForm({"livr.": "livraison"}, ends="any", any_case=True),
    ShortForm({"ch.": "chambre"}, lead=behind(r"\b[Ll]a", r"\b[Uu]ne", r"\b[Mm]a", r"\b[Ss]a"),
        rest=NUMBER_NEXT, weight=2),
    ShortForm({"resp.": "responsable"}, lead=behind(r"\b[Ll]e", r"\b[Ll]a", r"\b[Uu]ne", r"\b[Uu]n",
        r"\b[Dd]u", r"\b[Aa]u", r"\b[NnVv]otre"), ends="title", weight=2),
    ShortForm({"env.": "environs"}, lead=behind(r"\b[Ll]es", r"\b[Aa]ux", r"\b[Dd]es"), ends="any",
        weight=2),
    ShortForm({"pers.": "personnel"}, lead=behind(r"\b[Dd]u", r"\b[Ll]e", r"\b[Aa]u"), ends="any",
        weight=2),
    ShortForm({"dir.": "direction"}, lead=behind(r"\b[Ll]a"),
        rest=rf"(?= (?:du|des|de|d')\b(?![^.;]{{0,40}}, [{CAPITAL}]))", weight=2),
    ShortForm({"av.": "avocat"}, rest=r"(?= (?:au|à la|honoraire|général)\b)", weight=1.8),
    ShortForm({"l.": "ligne", "ll.": "lignes"}, lead=r"(?<!\d )(?<!\d)", rest=r"(?= \d)",
        weight=1.4),
    ShortForm({"l.": "ligne"}, lead=_AT_ORDINAL, ends="any", weight=1.4),
    ShortForm({"cap.": "capital"}, lead=behind(r"\bau", r"\b[Ll]e"), rest=r"(?= (?:de|social))",
        weight=1.8),
    ShortForm({"p. o.": "par ordre", "p.o.": "par ordre", "p. i.": "par intérim"}, weight=1.8),
    ShortForm({"LL. MM.": "Leurs Majestés", "LL. AA.": "Leurs Altesses"}, weight=1.4),
    ShortForm({key: TITLES[key] for key in ("Dr.", "Pr.", "Prof.")}, ends="title", weight=1),
    ShortForm({key: words for key, words in TITLES.items()
               if not key.endswith(".") and key not in _ALWAYS},
        rest=_OPENING + NAME_NEXT, weight=1.2),
    ShortForm({key: TITLES[key] for key in _ALWAYS}, weight=1),
    ShortForm(_DOTTED | _SMALL_TITLES, rest=_NAMED, ends="title", weight=1.3),
    ShortForm(STREETS, lead=r"(?!(?:(?<=une )|(?<=la )|(?<=des )|(?<=les )|(?<=cette ))bd)",
        rest=_OPENING + NAME_NEXT, weight=1, any_case=True),
    ShortForm({"gr.": "groupe"}, rest=r"(?= (?:[A-Z]\b|\d))"),
    ShortForm({"Ch.": "Chambre"},
        rest=r"(?= (?:des députés|des pairs|de comm|civ|crim|soc|com|de l'|régionale|mixte))",
        weight=1.6),
    ShortForm({"N.": "nord", "S.": "sud", "E.": "est", "O.": "ouest", "N": "nord", "S": "sud",
        "E": "est", "O": "ouest"}, lead=behind("latitude", "longitude", r"lat\.", r"long\."),
        ends="any"),
    ShortForm({"dir.": "directeur", "dir. adj.": "directeur adjoint",
        "dir. gén.": "directeur général"}, lead=_RANKED, ends="title", weight=1.6, any_case=True),
    ShortForm({"vol.": "volume"}, lead=behind("%"), ends="any"),
    ShortForm({"dir.": "directrice", "dir. adj.": "directrice adjointe",
        "dir. gén.": "directrice générale"}, lead=behind(r"\b[Ll]a", r"\bune"), ends="title",
        weight=1.6),
    ShortForm({"sal.": "salariés"}, lead=behind(r"\d"), ends="any"),
    ShortForm({"éts": "établissements", "ets": "établissements"}, rest=NAME_NEXT),
    ShortForm({"n. m.": "nom masculin", "n. f.": "nom féminin",
        "n. m. pl.": "nom masculin pluriel", "n. f. pl.": "nom féminin pluriel",
        "v. tr.": "verbe transitif", "v. intr.": "verbe intransitif",
        "v. pron.": "verbe pronominal", "loc. adv.": "locution adverbiale",
        "adj. inv.": "adjectif invariable"}, ends="any", weight=1.8),
    ShortForm({"pas sér. s'abst.": "pas sérieux s'abstenir", "s'abst.": "s'abstenir"}, ends="any",
        weight=1.8, any_case=True),
    ShortForm({"n.": "note"}, lead=behind(r"\d et", r"\d,"), rest=NUMBER_NEXT),
    *unit_forms(UNIT_NOUNS, "le du au un par chaque", "llions de, lliards de, lliers de"),
    ShortForm(NUMBERED, rest=NUMBER_NEXT, weight=1.3, any_case=True),
    ShortForm({key: words for key, words in CLOSERS.items() if key not in AGREEING}, ends="any",
        weight=1.15, any_case=True, acronyms=True),
    ShortForm(SMALL_CLOSERS, ends="any", weight=1.3),
    ShortForm(INNER, ends="title", weight=1.05, any_case=True, acronyms=True),
    ShortForm(UNITS_OF_ARMIES, lead=_AT_ORDINAL, ends="any", weight=1.6, any_case=True),
    ShortForm({"Ps": "psaume", "Ps.": "psaume"}, rest=r"(?= \d)", weight=1),
    ShortForm(HIGH, rest=rf"(?=[ -](?:de-)?[{CAPITAL}])", weight=1),
    ShortForm({rank.lower(): TITLES[rank] for rank in SMALL_RANKS}, lead=_RANKED, rest=NAME_NEXT,
        weight=1),
    ShortForm({"fr.": "frère"}, lead=_RANKED, rest=NAME_NEXT),
    ShortForm({"p.": "pages"}, rest=r"(?= ?\d+ ?[-\u2013] ?\d)", any_case=True),
    ShortForm({"p.": "pages", "art.": "articles", "chap.": "chapitres", "fig.": "figures",
        "al.": "alinéas", "vol.": "volumes", "t.": "tomes", "par.": "paragraphes"},
        lead=behind(r"\b[Ll]es"), rest=NUMBER_NEXT),
    ShortForm({"inf.": "infanterie", "cav.": "cavalerie", "art.": "artillerie"}, lead="(?<=d')",
        ends="any"),
    ShortForm({"n.": "né en"}, lead=r"(?:(?<=[,(] )|(?<=\())", rest=YEAR_NEXT, weight=1.6),
    ShortForm({"vit.": "vitesse"}, rest=r"(?= (?:max|min|moy|de)\b| ?:)", any_case=True),
    ShortForm({"cl.": "classe"}, lead=behind(r"\de"), ends="name", weight=1.8),
    ShortForm({"v.": "version"}, rest=r"(?= ?\d+\.\d)", weight=1.6, any_case=True),
    ShortForm({"Arr.": "arrivée", "Dép.": "départ"},
        rest=r"(?= (?:à|de|du|au|prévue?)\b| ?:)", weight=1.6),
    ShortForm({"dép.": "départ", "arr.": "arrivée"},
        rest=rf"(?= (?-i:[{CAPITAL}])[\w-]+ \d{{1,2}} ?h)", weight=1.6, any_case=True),
    ShortForm({"ch.": "chambre"}, rest=r"(?= (?:double|simple|triple|ind|avec)\b)", weight=2,
        any_case=True),
    ShortForm({"vit.": "vitamine"}, rest=r"(?= (?-i:[A-K])\d{0,2}\b)", weight=1.6, any_case=True),
    ShortForm({"ch.": "charges"}, rest=r"(?= (?:compr|incl|en sus))", weight=1.6, any_case=True),
    ShortForm({"ann.": "annexe", "Ann.": "Annexe"}, rest=r"(?= (?:[IVX]+\b|\d|[A-F]\b))",
        weight=1.6),
    ShortForm({"pers.": "personne"}, lead=behind(r"\b[Uu]ne", r"\bla", r"\bpar", r"\bchaque"),
        ends="any", weight=1.8),
    ShortForm({"dr.": "docteur"}, lead=behind(r"\b[Ll]e", r"\b[Dd]u", r"\b[Aa]u", r"\bun"),
        ends="any", weight=1.6),
    ShortForm({"p. o.": "per os"}, lead=behind(r"\bmg", r"\bg", r"\bml", r"\bjour", "jour,",
        r"\dh", r"\d h", r"\d,", "/j,", "/j"), ends="any", weight=2.2),
    ShortForm({"V.": "voir"},
        rest=r"(?= (?:aussi|égal|not\.|infra|supra|p\.|art\.|n°|C\.))"),
    ShortForm({"n.": "né", "m.": "mort"}, lead=r"(?:(?<=\()|(?<=, ))",
        rest=r"(?= (?:à|en|le) [A-ZÀ-Ý\d])", weight=1.8),
    ShortForm({"Cdt": "cordialement", "Cdlt": "cordialement"}, rest="(?=,)",
        lead=r"(?:^|(?<=[.!?] ))",
        weight=1.6),
    ShortForm({"s.": "salle"}, lead=behind(","), rest=r"(?= \d{2,4}(?!\d))", weight=1.4),
    ShortForm({"Int.": "Intérieur", "Éd.": "Éducation", "Just.": "Justice"},
        lead=r"(?:(?<=[Dd]e l')|(?<=[Dd]e la ))", ends="any", weight=1.8),
    ShortForm({"min.": "ministre"}, lead=_RANKED,
        rest=rf"(?= (?:de l'|des |du |de la )[{CAPITAL}])",
        weight=1.8),
    ShortForm({"couv.": "couvert"}, lead=behind("ciel", "temps"), ends="any", weight=1.8),
    ShortForm({"assoc.": "association"}, lead=r"(?:(?<=l')|(?<=une )|(?<=cette )|(?<=les ))",
        ends="any"),
    ShortForm({key: TITLES[key] for key in ("Dr", "Pr", "Dre")}, lead=behind(r"\b[LlCc]e",
        r"\b[Dd]u", r"\b[Aa]u", r"\b[Uu]n", r"\bla", r"\bcette"), rest=r"(?=,? [a-zà-ÿ]|\.)"),
    ShortForm({"Col": "colonel"}, lead=_RANKED, rest=rf"(?= [{CAPITAL}])", weight=1.2),
    ShortForm({"chap.": "chapelle", "Chap.": "Chapelle"},
        rest=r"(?= (?:Ste?|Sainte?|Notre|N\.)[- ]?)", weight=1.8),
    ShortForm({key: TITLES[key] for key in ("S. M.", "S. S.", "S. E.", "S. A. R.")},
        rest=r"(?= ?[!?,;])"),
    ShortForm({"vol.": "volumes", "t.": "tomes", "pp.": "pages"}, lead=behind(r"\d"),
        rest=r"(?! ?\d)", ends="any"),
    ShortForm({"am.": "amiral"}, lead=r"(?<=\b[Ll]')", rest=NAME_NEXT, weight=1.6),
    ShortForm({"éd.": "éditions", "Éd.": "Éditions"}, lead=r"(?<!\d[eè] )",
        rest=rf"(?= (?:de la |du |des |de )?[{CAPITAL}])", ends="name", weight=1.4),
    ShortForm({"dr.": "droite", "g.": "gauche", "dte": "droite", "gche": "gauche", "face": "face"},
        lead=behind(r"\bét\.", "étage", r"\bà"), ends="any", weight=1.6),
    ShortForm({"vo": "verso", "v°": "verso", "v.": "verso", "ro": "recto", "r°": "recto"},
        lead=behind(*(rf"{head} {digits}" for head in (r"fol\.", "f°")
                      for digits in (r"\d", r"\d\d", r"\d\d\d"))), ends="any", weight=1.8),
    ShortForm({"pl.": "place"}, lead=behind(r"voit\. \d,", r"voit\. \d\d,", r"voiture \d,",
        r"voiture \d\d,"), weight=1.6),
    ShortForm({"ex.": "exemplaires"}, lead=behind(r"\d"), ends="any"),
    ShortForm({"av.": "avant"}, rest=r"(?= le \d)", any_case=True),
    ShortForm({"bât.": "bâtiment"}, rest=r"(?= (?-i:[A-Z])\b)", any_case=True),
    ShortForm({"Port.": "portable"}, rest=r"(?= ?:? ?0[67])"),
    ShortForm({"ép.": "épouse"}, rest=NAME_NEXT),
    ShortForm({"T.": "terminal"}, lead=behind(r"\bdu", r"\bau"), rest=r"(?= ?\d[A-G]\b)",
        weight=1.6),
    ShortForm({"Dim.": "dimensions", "Conso.": "consommation", "Vit.": "vitesse"},
        rest=r"(?= ?:)"),
    ShortForm(REPUBLICAN_MONTHS, lead=behind(r"\d"), rest=r"(?= an\b)", weight=1.6),
    ShortForm({"ex.": "exemple"}, rest=r"(?= ?:| (?-i:[a-zà-ÿ]))", weight=1, any_case=True),
    ShortForm({"P.": "père"}, lead=_RANKED, rest=r"(?=\s[A-ZÉÈ][a-zà-ÿ]+)"),
    ShortForm({"nos": "numéros"}, lead=behind(r"\b[Ll]es", r"\baux", r"\bdes"), rest=r"(?= \d)"),
    ShortForm({"nos": "numéros", "Nos": "Numéros"},
        rest=r"(?= \d+(?:, \d+)*(?: et | à |-|\u2013)\d+(?! [a-zà-ÿ]|\d))"),
)  # fmt: skip
"""In the order in which they are tried."""
