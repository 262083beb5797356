"""Whether what a French number counts is feminine: only `un` and `une` depend on it."""

from __future__ import annotations

import re

from anyrig.speech.normalise.french.numbers import Gender
from anyrig.speech.normalise.romance.sentences import word_before, words_after

# A number after one of these is its name: page un, chambre deux cent.
_LABELS = frozenset(
    "page pages chapitre chapitres numéro n° chambre salle porte ligne tome volume figure tableau "
    "article niveau phase groupe version leçon unité exercice étape étage vol canal bus tram quai "
    "voie section annexe rue avenue place code note classe épisode saison partie appartement "
    "bâtiment bloc case table édition acte scène question règle option zone gate terminal".split()
)
# Words after a number that it does not count.
NO_NOUN = frozenset(
    "de du des et ou plus moins est sont en à par avec pour que au la le les".split()
)
_FEMININE = frozenset(
    "page heure minute seconde personne fois femme fille année semaine journée maison voiture "
    "chose "
    "table rue route ville place ligne lettre école tasse pomme photo image part nuit main mer fin "
    "voix fleur couleur douzaine tonne pièce porte chaise bouteille feuille famille classe équipe "
    "langue carte clé clef nation région île église banque boîte chambre fenêtre cuisine robe "
    "chemise veste chaussure montre bague étoile planète lune vache poule chèvre souris abeille "
    "orange banane poire tomate carotte salade tarte crêpe glace bière eau recette cuillère "
    "cuillerée tranche œuvre histoire phrase réponse question demande idée loi règle "
    "note page piste plage montagne rivière forêt ferme usine entreprise société usines vie mort "
    "guerre bataille armée arme balle bombe victime blessure jambe dent oreille peau tête marche "
    "étape course victoire défaite partie équipes manche médaille coupe seconde tonne once "
    "raison leçon façon chanson boisson saison prison dimension sœur mère tante nièce cousine amie "
    "copine étudiante reine princesse dame demoiselle fois paire dizaine quinzaine "
    "vingtaine trentaine centaine voie gare station rame ampoule lampe machine roue moto pilule "
    "dose goutte toile peinture statue cathédrale chaîne émission série scène danse "
    "personnes croix noix perdrix brebis fourmi jument dinde truite huître crevette moule ville "
    "commune province capitale frontière campagne rose branche racine graine herbe pierre perle "
    "brique planche vis corde ficelle ceinture poche manche jupe cravate écharpe casquette valise "
    "enveloppe carte adresse annonce affiche liste case colonne rangée marche touche fraise cerise "
    "framboise noisette amande olive pizza fourchette assiette bougie allumette cigarette".split()
)  # fmt: skip
_FEMININE_END = re.compile(
    r"(?:tion|sion|xion|aison|ette|elle|esse|ence|ance|ure|ude|ade|euse|trice|ille|ine|ée|ie|ité|"
    r"eté|erie|aine|ière|une|enne|onne|ise|ouche|otte|euille|anne|ole|ule|ogue)$"
)
_MASCULINE = frozenset(
    "musée lycée trophée apogée génie incendie parapluie foie magazine mercure murmure domaine "
    "capitaine silence carbone téléphone portefeuille chèvrefeuille stade grade pétrole symbole "
    "rôle "
    "contrôle monopole module véhicule siècle comité comté côté été traité pâté dialogue catalogue "
    "psychologue squelette gorille volatile parfum moustique kiosque masque disque risque casque "
    "article million milliard pays mois cas enfant homme jour an soir matin élève "
    "collègue âge stage village voyage nuage message fromage visage garage mariage étage "
    "cimetière derrière arrière mille quadrilatère mystère magasin cousin".split()
)


def agreement(match: re.Match[str]) -> Gender:
    """`f` where the number counts something feminine."""
    following = words_after(match, 2)
    if not following or word_before(match) in _LABELS:
        return ""
    word = following[0].lower()
    if word in _BETWEEN and len(following) > 1:
        return "f" if word in _FEMININE_ONES else gender(following[1])
    return gender(word)


_FEMININE_ONES = frozenset("petites petite grandes grande nouvelles belles vieilles".split())
_BETWEEN = frozenset(
    "autre autres petite petites grande grandes nouvelles belles jeune jeunes vieilles bonnes "
    "mauvaises longues simple seule".split()
)


def gender(noun: str) -> Gender:
    """What gender a noun most likely has, by its end and by lists."""
    word = noun.lower()
    one = (
        word[:-1]
        if word.endswith("s") and word not in _FEMININE and word not in _MASCULINE
        else word
    )
    if one in _MASCULINE:
        return "m"
    return "f" if one in _FEMININE or _FEMININE_END.search(one) else "m"
