"""Words that say little on their own, by language: articles, pronouns, plain verbs and the like.

Six languages have a table. Elsewhere a word of up to three letters counts as one, in scripts that
part words by spaces: that keeps most particles out of key phrases in any of them.
"""

from __future__ import annotations

from functools import lru_cache

_SHORT = 3
_STOP = {
    "en": "a about above across after again against all almost alone along already also although "
    "always am among an and another any anybody anyone anything are aren around as ask "
    "asked asks at away back be became because become becomes been before began begin "
    "behind being believe below beneath beside besides best better between beyond big both "
    "bring brings brought but by call called came can cannot come comes coming could couldn "
    "did didn different do does doesn doing don done down due during each easy either else "
    "enough even ever every everybody everyone everything exactly example far feel feels "
    "felt few fewer find finds finally first five for found four from full further gave get "
    "gets getting give given gives giving go goes going gone good got great had hadn half "
    "happen happened happens hard hardly has hasn have haven having he held help helped "
    "helps hence her here hers herself him himself his hold holds how however i if in "
    "indeed inside instead into is isn it its itself just keep keeps kept kind knew know "
    "known knows large last late later least leave leaves led left less lest let lets like "
    "likely little ll long longer look looked looks lot lots low made mainly make makes "
    "making many may maybe me mean means meant met might mine more moreover most mostly mr "
    "mrs ms much must my myself near nearly need needed needs neither never nevertheless "
    "new next no nobody none nor not nothing now nowhere of off often on once one ones only "
    "onto or other others otherwise our ours ourselves out outside over own part perhaps "
    "plus possible put puts quite ran rather re real really recent right run runs said same "
    "saw say saying says second see seem seemed seems seen sees send sent set several shall "
    "she should shouldn show showed shown shows simply since six small so some somebody "
    "somehow someone something sometimes somewhere soon start started starts still stop "
    "such sure take taken takes taking tell tells ten than that the their theirs them "
    "themselves then there therefore these they thing things think thinks third this those "
    "though thought three through throughout thus till to today together told too took "
    "toward towards tried tries true try turn turned turns twice two under until up upon us "
    "use used uses using usually ve very want wanted wants was wasn way ways we well went "
    "were weren what whatever when whenever where whereas wherever whether which while who "
    "whoever whole whom whose why will with within without won word would wouldn year years "
    "yes yesterday yet you young your yours yourself o'clock",
    "es": "a acá ahí ahora al algo alguien algún alguna algunas alguno algunos allá allí ambos "
    "ante antes aquel aquella aquellas aquello aquellos aquí así aun aún aunque bajo "
    "bastante bien buen buena buenas bueno buenos cada casi cerca cierta ciertas cierto "
    "ciertos como cómo con conmigo contigo contra cosa cosas cual cuál cuales cuáles "
    "cualquier cualquiera cuando cuándo cuanto cuánto cuantos cuatro da dan dar de debe "
    "deben debería deberían debido decir dejar del demás demasiado dentro desde después día "
    "días dice dicen dicho dicha diez dijo dio donde dónde dos durante e el él ella ellas "
    "ello ellos embargo en encima entonces entre era eran eres es esa esas ese eso esos "
    "esta está estaba estaban estado estamos están estar estas este esté esto estos estoy "
    "etc ex fin fue fuera fueron fui gran grande grandes ha haber había habían habrá hace "
    "hacen hacer hacerlo hacia haciendo han hasta hay haya hayan he hecho hemos hizo hoy "
    "hubo iba iban igual incluso ir junto jamás la las le les lo los luego lugar llega "
    "llegar llegó lleva llevar más mayor mayoría me mediante medio mejor menos menor mi mí "
    "mía mientras mío mis misma mismas mismo mismos modo momento mucha muchas mucho muchos "
    "muy nada nadie necesita ni ningún ninguna ninguno no nos nosotras nosotros nuestra "
    "nuestras nuestro nuestros nueva nuevas nuevo nuevos nunca o os otra otras otro otros "
    "para parece parte pasa pasado pasar pero peor poca pocas poco pocos podemos poder "
    "podía podrá podría podrían por porque primer primera primeras primero primeros propia "
    "propias propio propios pronto pudo puede pueden puedo pues puesto que qué quedar quedó "
    "quien quién quienes quiere quieren quizá quizás quiso resulta sabe saben saber sé se "
    "sea sean segunda segundo según seis ser será serán sería serían si sí sido siempre "
    "siendo siete siga sigue siguen siguiente sin sino sobre sois solamente solo sólo somos "
    "son soy su sus suya suyo tal tales también tampoco tan tanta tantas tanto tantos te "
    "tenemos tener tenía tenían tengo ti tiempo tiene tienen toda todas todavía todo todos "
    "toma tomar tomó tras través tres tu tú tus tuvo tuvieron u última últimas último "
    "últimos un una unas uno unos usted ustedes va vamos van varias varios veces ver vez "
    "vino viene vienen volver volvió vosotros voy vuelve y ya yo año años mil cien cinco "
    "ocho nueve forma tipo manera ejemplo explica explicó afirma afirmó señala señaló "
    "asegura aseguró permite permiten pueda puedan",
    "fr": "à afin ai ainsi ailleurs alors an ans année années après as assez au aucun aucune "
    "aujourd'hui auprès auquel aura aurait auront aussi aussitôt autant autour autre autres "
    "aux avaient avait avant avec avez avoir avons ayant beaucoup bien bon bonne bons "
    "bonnes c car ce ceci cela celle celles celui cent cependant certain certaine certaines "
    "certains ces cet cette ceux chacun chacune chaque chez chose choses ci cinq comme "
    "comment contre d dans de début deçà déjà depuis derrière des dès dessous dessus deux "
    "deuxième devait devant devient deviennent devoir devra devrait dire dit disent dix "
    "doit doivent donc donne donné donnent donner dont du durant elle elles en encore enfin "
    "ensuite entre environ es est et étaient était étant été être eu eux exemple fait faire "
    "faisait faisant faites façon faudra faut fin fois font forme furent fut grâce grand "
    "grande grandes grands haut hier hors huit ici il ils j jamais je jour jours jusqu "
    "jusque juste l la là laquelle le lequel les lesquelles lesquels leur leurs lieu loin "
    "lors lorsqu lorsque lui m ma maintenant mais mal malgré me même mêmes mes met mettre "
    "mieux mille mis mise moi moindre moins mon moyen n ne ni niveau non nos notre nôtre "
    "nous nouveau nouveaux nouvelle nouvelles nul on ont ou où par parce parfois parmi part "
    "partie pas passe passé passer pendant permet permettent permis peu peut peuvent petit "
    "petite petites petits peux place plus plusieurs plutôt point pour pourquoi pourra "
    "pourrait pourtant pouvait pouvoir première premières premier premiers prend prendre "
    "près presque pris propre propres pu puis puisque qu quand quant quatre que quel quelle "
    "quelles quelqu quelque quelques quels qui quoi quoique rend rendre reste rester rien s "
    "sa sans sauf se second seconde selon sept sera serait seront ses seul seule seules "
    "seulement seuls si sien six soi soit son sont sorte sous souvent suis suit suite "
    "suivant sur surtout t ta tandis tant te tel telle telles tels temps tes toi ton "
    "toujours tous tout toute toutefois toutes très trois trop trouve trouver tu type un "
    "une unes uns va vais vers vient viennent voici voilà voir vont vos votre vous vrai vu "
    "y explique affirme indique souligne ajoute rappelle",
    "de": "ab aber alle allem allen aller alles als also am an ander andere anderem anderen "
    "anderer anderes andern anders auch auf aus bei beide beiden beim bereits besonders bis "
    "bisher bin bist da dabei dadurch dafür dagegen daher damit danach dann daran darauf "
    "daraus darf darin darüber darum das dass daß davon davor dazu dein deine dem den denen "
    "denn dennoch der deren derer des deshalb dessen dich die dies diese diesem diesen "
    "dieser dieses dir doch dort drei du durch dürfen eben ebenso eigen eigene ein eine "
    "einem einen einer eines einfach einige einigen einiger einmal er erst erste ersten es "
    "etwa etwas euch euer eure fast für ganz ganze ganzen gar gegen geht gemacht gewesen "
    "gibt ging groß große großen gut habe haben hat hatte hatten hier hin hinter ich ihm "
    "ihn ihnen ihr ihre ihrem ihren ihrer ihres im immer in indem ins ist ja jahr jahre "
    "jahren je jede jedem jeden jeder jedes jedoch jene jetzt kam kann kaum kein keine "
    "keinem keinen keiner kommen kommt können könnte konnte lange lassen läßt lässt machen "
    "macht man manche mehr mehrere mein meine meist mich mir mit möchte mögen muss muß "
    "müssen musste nach nachdem nämlich neben nein neu neue neuen nicht nichts noch nun nur "
    "ob oben oder ohne schon sehr sei seien sein seine seinem seinen seiner seines seit "
    "selbst sich sie sind so sogar solche sollen sollte sondern sonst soweit sowie später "
    "steht tag tage trotz über um und uns unser unsere unter viel viele vielen vielleicht "
    "vier vom von vor während war waren warum was wegen weil weise weit weiter weitere "
    "welche welchem wenig wenige weniger wenn wer werden wie wieder will wir wird wo wohl "
    "wollen wollte worden wurde wurden würde zeit ziehen zu zum zur zwar zwei zwischen",
    "it": "a abbastanza abbia abbiamo ad adesso agli ai al alcun alcuna alcune alcuni all alla "
    "alle allo allora almeno altra altre altri altro anche ancora anni anno anzi avere "
    "aveva avevano avuto ben bene c' che chi ci ciascuno cinque ciò cioè come comunque con "
    "contro così cosa cose cui da dagli dai dal dall dalla dalle dallo davanti de degli dei "
    "del dell della delle dello dentro deve devono di dice dietro dire dopo dov dove due "
    "dunque durante e è ed era erano essere fa fanno far fare fatto fin fino fra fu fuori "
    "già gli giorno grande grandi ha hanno ho i il in infatti inoltre invece io l la là le "
    "lei li lo loro lui lungo ma mai me meglio meno mentre mi mia mie mio modo molta molte "
    "molti molto ne negli nei nel nell nella nelle nello nessun nessuno niente no noi non "
    "nostra nostro nuova nuove nuovi nuovo o ogni oggi ora oppure parte per perché perciò "
    "però piccolo più po' poco poi possono prima primo proprio può qual quale quali qualche "
    "qualcosa quando quanto quasi quattro quella quelle quelli quello questa queste questi "
    "questo qui quindi s se sé sei sempre senza sia siamo siano sono sopra sotto sta stata "
    "state stati stato stesso su sua sue sugli sui sul sull sulla sulle suo suoi tale tanto "
    "te tra tre troppo tu tutta tutte tutti tutto un una uno va vengono verso vi via viene "
    "volta voi vostro",
    "pt": "a acima agora ainda além algo algum alguma algumas alguns ali ambos ano anos ante "
    "antes ao aos apenas após aquela aquelas aquele aqueles aquilo as às assim até através "
    "bem boa bom cada coisa coisas com como contra contudo da das de dela delas dele deles "
    "demais depois desde dessa desse desta deste deve devem dez dia dias disse diz do dois "
    "dos duas durante e é ela elas ele eles em embora enquanto entanto entre era eram essa "
    "essas esse esses esta está estão estar estas estava estavam este estes eu faz fazer "
    "fazem feita feito fez foi fora foram forma grande grandes há houve isso isto já lá lhe "
    "lhes logo mais mas me mediante meio melhor menos mesma mesmo meu meus minha muita "
    "muitas muito muitos na nada não nas nem nenhum nessa nesse nesta neste no nos nós "
    "nossa nosso nova novas novo novos num numa nunca o onde ontem os ou outra outras outro "
    "outros para parte pela pelas pelo pelos perto pode podem poder pois por porém porque "
    "pouco primeira primeiro própria próprio qual quais qualquer quando quanto quase quatro "
    "que quem são se segundo seja sem sempre sendo ser será seu seus si sido só sob sobre "
    "sua suas tal também tanto tão te tem têm tempo tendo ter teve tinha toda todas todo "
    "todos três tu tudo última último um uma umas uns vai vão vez vezes você vocês",
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
    """The stop-words of a language; empty where there is no table."""
    return frozenset(_STOP.get(language.partition("-")[0].lower(), "").split())


@lru_cache(maxsize=32)
def joints(language: str) -> frozenset[str]:
    """What may join two words to one phrase, each as its words parted by a space."""
    found = _JOINTS.get(language.partition("-")[0].lower(), "").split()
    return frozenset(one.replace("-", " ") for one in found)


def is_stop(word: str, language: str) -> bool:
    """Whether a word, in small letters, says little on its own."""
    known = table(language)
    if known:
        # `I'm`, `don't`, `she'll` are what they begin with.
        return word in known or word.partition("'")[0] in known
    return len(word) <= _SHORT and word.isalpha() and word[0] < "\u0900"
