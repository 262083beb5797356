"""Words that say little on their own, by language: articles, pronouns, plain verbs and the like.

Six languages have a table. Elsewhere a word of up to three letters counts as one, in scripts that
part words by spaces: that keeps most particles out of key phrases in any of them.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_SHORT = 3
_STOP = {
    "en": "a able about above according across after again against all almost alone along already "
    "also although always am among an and another any anybody anyone anything april are "
    "aren around as ask asked asks at august autumn away back be became because become "
    "becomes been before began begin behind being believe below beneath beside besides best "
    "better between beyond big billion both bring brings brought but by call called came "
    "can cannot cent come comes coming could couldn day days december did didn different do "
    "does doesn doing don done down dozen due during each easy eight eighty either eleven "
    "else enough even ever every everybody everyone everything exactly example far february "
    "feel feels felt few fewer fifteen fifty finally find finds first five for forty found "
    "four friday from full further gave get gets getting give given gives giving go goes "
    "going gone good got great had hadn half happen happened happens hard hardly has hasn "
    "have haven having he held help helped helps hence her here hers herself him himself "
    "his hold holds hour hours how however hundred i if in indeed inside instead into is "
    "isn it its itself january july june just keep keeps kept kind knew know known knows "
    "large last late later least leave leaves led left less lest let lets like likely "
    "little ll long longer look looked looks lot lots low made mainly make makes making "
    "many march may maybe me mean means meant met might million millions mine minute "
    "minutes monday month months more moreover most mostly mr mrs ms much must my myself "
    "near nearly need needed needs neither never nevertheless new next nine ninety no "
    "nobody none nor not nothing november now nowhere number numbers o'clock october of off "
    "often on once one ones only onto or other others otherwise our ours ourselves out "
    "outside over own part people percent perhaps person plus possible put puts quarter "
    "quite ran rather re real really recent right run runs said same saturday saw say "
    "saying says second see seem seemed seems seen sees send sent september set seven "
    "seventy several shall she should shouldn show showed shown shows simply since six "
    "sixty small so some somebody somehow someone something sometimes somewhere soon spring "
    "start started starts still stop such summer sunday sure take taken takes taking tell "
    "tells ten than tomorrow that the their theirs them themselves then there therefore these they "
    "thing things think thinks third thirty this those though thought thousand three "
    "through throughout thursday thus till time times to today together told too took "
    "toward towards tried tries true try tuesday turn turned turns twelve twenty twice two "
    "under until up upon us use used uses using usually ve very want wanted wants was wasn "
    "way ways we wednesday week weeks well went were weren what whatever when whenever "
    "where whereas wherever whether which while who whoever whole whom whose why will "
    "winter with within without won word would wouldn year years oh ah yes yesterday yet you "
    "young your yours yourself",
    "es": "a abril acá afirma afirmó agosto ahora ahí al algo alguien alguna algunas alguno "
    "algunos algún allá allí ambos ante antes aquel aquella aquellas aquello aquellos aquí "
    "asegura aseguró así aun aunque año años aún bajo bastante bien buen buena buenas bueno "
    "buenos cada casi cerca cien ciento cientos cierta ciertas cierto ciertos cinco "
    "cincuenta como con conmigo contigo contra cosa cosas cual cuales cualquier cualquiera "
    "cuando cuanto cuantos cuarenta cuatro cuál cuáles cuándo cuánto cómo da dan dar de "
    "debe deben debería deberían debido decir dejar del demasiado demás dentro desde "
    "después dice dicen dicha dicho diciembre diez dijo dio doce domingo donde dos durante "
    "día días dónde e ejemplo el ella ellas ello ellos embargo en encima enero entonces "
    "entre era eran eres es esa esas ese eso esos esta estaba estaban estado estamos estar "
    "estas este esto estos estoy está están esté etc ex explica explicó febrero fin forma "
    "fue fuera fueron fui gente gran grande grandes ha haber habrá había habían hace hacen "
    "hacer hacerlo hacia haciendo han hasta hay haya hayan he hecho hemos hizo hora horas "
    "hoy hubo iba iban igual incluso ir jamás jueves julio junio junto la las le les llega "
    "llegar llegó lleva llevar lo los luego lugar lunes manera martes marzo mayo mayor "
    "mayoría me mediante medio mejor menor menos mes meses mi mientras mil millones millón "
    "minuto minutos mis misma mismas mismo mismos mitad miércoles modo momento mucha muchas "
    "mucho muchos muy más mí mía mío nada nadie necesita ni ninguna ninguno ningún no nos "
    "nosotras nosotros noviembre nuestra nuestras nuestro nuestros nueva nuevas nueve nuevo "
    "nuevos nunca o ocho octubre once os otra otras otro otros para parece parte pasa "
    "pasado pasar peor permite permiten pero persona personas poca pocas poco pocos podemos "
    "poder podrá podría podrían podía por porque primer primera primeras primero primeros "
    "pronto propia propias propio propios pudo pueda puedan puede pueden puedo pues puesto "
    "que quedar quedó quien quienes quiere quieren quince quiso quizá quizás quién qué "
    "resulta sabe saben saber se sea sean segunda segundo según seis semana semanas "
    "septiembre ser será serán sería serían sesenta señala señaló si sido siempre siendo "
    "siete siga sigue siguen siguiente sin sino sobre sois solamente solo somos son soy su "
    "sus suya suyo sábado sé sí sólo tal tales también tampoco tan tanta tantas tanto "
    "tantos te tenemos tener tengo tenía tenían tercio ti tiempo tiene tienen tipo toda "
    "todas todavía todo todos toma tomar tomó tras través treinta tres tu tus tuvieron tuvo "
    "tú u un una unas uno unos usted ustedes va vamos van varias varios veces veinte ver "
    "vez viene vienen viernes vino volver volvió vosotros voy vuelve y ya yo él última "
    "últimas último últimos anoche anteayer ayer mañana",
    "fr": "affirme afin ai ailleurs ainsi ajoute alors an année années ans août après as assez au "
    "aucun aucune aujourd'hui auprès auquel aura aurait auront aussi aussitôt autant autour "
    "autre autres aux avaient avait avant avec avez avoir avons avril ayant beaucoup bien "
    "bon bonne bonnes bons c car ce ceci cela celle celles celui cent cependant certain "
    "certaine certaines certains ces cet cette ceux chacun chacune chaque chez chose choses "
    "ci cinq cinquante comme comment contre d dans de depuis derrière des dessous dessus "
    "deux deuxième demain devait devant deviennent devient devoir devra devrait deçà dimanche dire "
    "disent dit dix doit doivent donc donne donnent donner donné dont douze du durant dès "
    "début décembre déjà elle elles en encore enfin ensuite entre environ es est et eu "
    "euros eux exemple explique faire faisait faisant fait faites faudra faut façon fin "
    "fois font forme furent fut février gens grand grande grandes grands grâce haut heure "
    "heures hier hors huit ici il ils indique j jamais janvier je jeudi jour jours juillet "
    "juin jusqu jusque juste l la laquelle le lequel les lesquelles lesquels leur leurs "
    "lieu loin lors lorsqu lorsque lui lundi là m ma mai maintenant mais mal malgré mardi "
    "mars me mercredi mes met mettre mieux mille milliard milliards million millions minute "
    "minutes mis mise moi moindre moins mois moitié mon moyen même mêmes n ne ni niveau non "
    "nos notre nous nouveau nouveaux nouvelle nouvelles novembre nul nôtre octobre on ont "
    "onze ou où par parce parfois parmi part partie pas passe passer passé pendant permet "
    "permettent permis personne personnes petit petite petites petits peu peut peuvent peux "
    "place plus plusieurs plutôt point pour pourquoi pourra pourrait pourtant pouvait "
    "pouvoir premier premiers première premières prend prendre presque pris propre propres "
    "près pu puis puisque qu quand quant quarante quatre que quel quelle quelles quelqu "
    "quelque quelques quels qui quinze quoi quoique rappelle rend rendre reste rester rien "
    "s sa samedi sans sauf se second seconde seize selon semaine semaines sept septembre "
    "sera serait seront ses seul seule seulement seules seuls si sien six soi soit soixante "
    "son sont sorte souligne sous souvent suis suit suite suivant sur surtout t ta tandis "
    "tant te tel telle telles tels temps tes tiers toi ton toujours tous tout toute "
    "toutefois toutes treize trente trois trop trouve trouver très tu type un une unes uns "
    "va vais vendredi vers viennent vient vingt voici voilà voir vont vos votre vous vrai "
    "vu y à étaient était étant été être",
    "de": "ab aber alle allem allen aller alles als also am an ander andere anderem anderen "
    "anderer anderes andern anders auch auf aus bei beide beiden beim bereits besonders bin "
    "bis bisher bist da dabei dadurch dafür dagegen daher damit danach dann daran darauf "
    "daraus darf darin darum darüber das dass davon davor dazu daß dein deine dem den denen "
    "denn dennoch der deren derer des deshalb dessen dich die dies diese diesem diesen "
    "dieser dieses dir doch dort drei du durch dürfen eben ebenso eigen eigene ein eine "
    "einem einen einer eines einfach einige einigen einiger einmal er erst erste ersten es "
    "etwa etwas euch euer eure fast für ganz ganze ganzen gar gegen geht gemacht gewesen "
    "gibt ging groß große großen gut habe haben hat hatte hatten hier hin hinter ich ihm "
    "ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins ist ja jahr jahre "
    "jahren je jede jedem jeden jeder jedes jedoch jene jetzt kam kann kaum kein keine "
    "keinem keinen keiner kommen kommt konnte können könnte lange lassen lässt läßt machen "
    "macht man manche mehr mehrere mein meine meist mich mir mit muss musste muß möchte "
    "mögen müssen nach nachdem neben nein neu neue neuen nicht nichts noch nun nur nämlich "
    "ob oben oder ohne schon sehr sei seien sein seine seinem seinen seiner seines seit "
    "selbst sich sie sind so sogar solche sollen sollte sondern sonst soweit sowie später "
    "steht tag tage trotz um und uns unser unsere unter viel viele vielen vielleicht vier "
    "vom von vor war waren warum was wegen weil weise weit weiter weitere welche welchem "
    "wenig wenige weniger wenn wer werden wie wieder will wir wird wo wohl wollen wollte "
    "worden wurde wurden während würde zeit ziehen zu zum zur zwar zwei zwischen über",
    "it": "a abbastanza abbia abbiamo ad adesso agli ai al alcun alcuna alcune alcuni all alla "
    "alle allo allora almeno altra altre altri altro anche ancora anni anno anzi avere "
    "aveva avevano avuto ben bene c' che chi ci ciascuno cinque cioè ciò come comunque con "
    "contro cosa cose così cui da dagli dai dal dall dalla dalle dallo davanti de degli dei "
    "del dell della delle dello dentro deve devono di dice dietro dire dopo dov dove due "
    "dunque durante e ed era erano essere fa fanno far fare fatto fin fino fra fu fuori "
    "giorno già gli grande grandi ha hanno ho i il in infatti inoltre invece io l la le lei "
    "li lo loro lui lungo là ma mai me meglio meno mentre mi mia mie mio modo molta molte "
    "molti molto ne negli nei nel nell nella nelle nello nessun nessuno niente no noi non "
    "nostra nostro nuova nuove nuovi nuovo o oggi ogni oppure ora parte per perché perciò "
    "però piccolo più po' poco poi possono prima primo proprio può qual qualche qualcosa "
    "quale quali quando quanto quasi quattro quella quelle quelli quello questa queste "
    "questi questo qui quindi s se sei sempre senza sia siamo siano sono sopra sotto sta "
    "stata state stati stato stesso su sua sue sugli sui sul sull sulla sulle suo suoi sé "
    "tale tanto te tra tre troppo tu tutta tutte tutti tutto un una uno va vengono verso vi "
    "via viene voi volta vostro è",
    "pt": "a acima agora ainda algo algum alguma algumas alguns ali além ambos ano anos ante "
    "antes ao aos apenas após aquela aquelas aquele aqueles aquilo as assim através até bem "
    "boa bom cada coisa coisas com como contra contudo da das de dela delas dele deles "
    "demais depois desde dessa desse desta deste deve devem dez dia dias disse diz do dois "
    "dos duas durante e ela elas ele eles em embora enquanto entanto entre era eram essa "
    "essas esse esses esta estar estas estava estavam este estes está estão eu faz fazem "
    "fazer feita feito fez foi fora foram forma grande grandes houve há isso isto já lhe "
    "lhes logo lá mais mas me mediante meio melhor menos mesma mesmo meu meus minha muita "
    "muitas muito muitos na nada nas nem nenhum nessa nesse nesta neste no nos nossa nosso "
    "nova novas novo novos num numa nunca não nós o onde ontem os ou outra outras outro "
    "outros para parte pela pelas pelo pelos perto pode podem poder pois por porque porém "
    "pouco primeira primeiro própria próprio quais qual qualquer quando quanto quase quatro "
    "que quem se segundo seja sem sempre sendo ser será seu seus si sido sob sobre sua suas "
    "são só tal também tanto te tem tempo tendo ter teve tinha toda todas todo todos três "
    "tu tudo tão têm um uma umas uns vai vez vezes você vocês vão às é última último",
}
# Words after which a verb follows: what comes then is no name of a thing.
_BEFORE_VERBS = {
    "en": "to they we you he she it i who will would can could may might must should cannot not",
    "es": "se no le les lo nos me te quien quienes yo tú ellos ellas él ella ya ha han había",
    "fr": "se ne n s il ils elle elles on je j tu nous vous qui a ont avait avaient pas",
    "de": "zu ich er sie es wir ihr man wer nicht",
    "it": "si non lo ci mi ti io lui lei loro chi ha hanno",
    "pt": "se não lhe eu ele ela eles elas quem tem têm",
}
# Small words that may stand inside a phrase: `consejo de administración`, `mise en œuvre`.
_JOINTS = {
    "en": "of",
    "es": "de del de-la de-los de-las",
    "fr": "de du des d' de-la de-l' à",
    "it": "di del della dei delle degli dell' d'",
    "pt": "de do da dos das",
}


@lru_cache(maxsize=32)
def table(language: str) -> frozenset[str]:
    """The stop-words of a language, with and without accents; empty where there is no table."""
    words = _STOP.get(language.partition("-")[0].lower(), "")
    plain = "".join(c for c in unicodedata.normalize("NFD", words) if not unicodedata.combining(c))
    return frozenset((*words.split(), *plain.split()))


@lru_cache(maxsize=32)
def before_verbs(language: str) -> frozenset[str]:
    """Words after which a verb follows; empty where there is no table."""
    return frozenset(_BEFORE_VERBS.get(language.partition("-")[0].lower(), "").split())


@lru_cache(maxsize=32)
def joints(language: str) -> frozenset[str]:
    """What may join two words to one phrase, each as its words parted by a space."""
    found = _JOINTS.get(language.partition("-")[0].lower(), "").split()
    return frozenset(one.replace("-", " ") for one in found)


def is_stop(word: str, language: str) -> bool:
    """Whether a word, in small letters, says little on its own."""
    known = table(language)
    if known:
        # `I'm`, `don't`, `she'll` are what they begin with; `twenty-six` is all small.
        bare = word.partition("'")[0]
        return bare in known or word in known or all(part in known for part in bare.split("-"))
    return len(word) <= _SHORT and word.isalpha() and word[0] < "\u0900"
