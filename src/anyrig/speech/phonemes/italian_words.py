"""Italian words whose spelling does not say how they are stressed, or how open their e and o is.

Words that the endings in `italian` get right are not listed, nor are those that the most common
case is right for: the last syllable but one, closed vowels.
"""

from __future__ import annotations

# Stressed on the last syllable but two. A verb here has its -no form one syllable earlier.
EARLY = frozenset(
    "abita abito cofano celibe docile docili esile polizza recluta suocera suocere suocero decima "
    "decimo fosforo monito abiti acero acido aereo aerei albero alberi ambito anatra anatre "
    "ancora ancore angelo angeli angolo angoli anima anime animo animi apostolo aquila aquile "
    "arabo arabi arbitro argine aria arido asino asini asparago asparagi atomo atomi attimo "
    "attimi avido bambola bambole barbaro bibita bibite bussola brivido brividi calcolo calcoli "
    "calice camera camere candido canapa carcere carica carico cattedra cavolo cavoli cellula "
    "cellule cenere chicchera chimica circolo circoli codice codici collera comico comoda comodo "
    "complice contabile coppola credito crimine crimini cronaca cronache cupola cupole debito "
    "debiti debole deboli desidera dialogo dialoghi diavolo diavoli difficile difficili dodici "
    "dollaro dollari domenica domeniche dondolo duplice ebano edera edicola edicole effimero "
    "elastico epoca epoche equivoco esercito eserciti esito esiti esodo estasi esule etica etico "
    "fabbrica fabbriche facile facili fascino favola favole fegato femmina femmine fenomeno "
    "fenomeni fertile fertili fiaccola fisica fisico folgore forbici formula formule fossile "
    "fragile fragili fragola fragole fulmine fulmini futile gambero gamberi gelido genere generi "
    "genero giovane giovani giudice giudici giubilo gocciola gomito gomiti gondola gondole "
    "grandine humus idolo idoli ilare indice indici infimo insolito intimo inutile inutili isola "
    "isole lacrima lacrime lampada lampade lapide lettera lettere libera libere liberi libero "
    "limite limiti logica logico lucciola lucciole lugubre macchina macchine maschera maschere "
    "mandorla mandorle manico margine margini martire martiri massima massimo medica medico "
    "medici merito meriti mescola metodo metodi minima minimo minuscolo miracolo miracoli misero "
    "mitico modulo moduli mormora muscolo muscoli musica musiche mutilo naviga nobile nobili "
    "nomade nomadi nomina novero numero numeri nuvola nuvole obbligo obblighi occupa oceano "
    "oceani omero opera opere ordina ordine ordini orfano orfani organo organi origine origini "
    "ospite ospiti ostacolo ostacoli ottimo ottima pagina pagine palpebra palpebre papavero "
    "papaveri passero passeri pascolo paolo patina pecora pecore pendolo pentola pentole pericolo "
    "pericoli perfido periodo periodi pessimo pessima petalo petali pettine piccola piccole "
    "piccoli piccolo pillola pillole plastica platano pollice pollici polvere polveri popolo "
    "popoli porpora portico povera povere poveri povero pratica pratiche pratico precipita "
    "principe prodigo prologo prospero prossima prossime prossimi prossimo pubblica pubblico "
    "quindici rapida rapido recita regola regole replica repubblica rigido rondine rondini rotolo "
    "rotoli ruggine sabato sabati sagoma salice sandalo sandali scandalo scandali scapolo scatola "
    "scatole scheletro scivola secolo secoli sedici semina semplice semplici senape settimo "
    "sillaba sillabe simbolo simboli simile simili sindaco singola singolo solido solito solita "
    "spasimo spazzola spigolo spirito spiriti splendido stimolo stomaco storica storico strepito "
    "stupida stupido subito suddito supplica tavola tavole tavoli tavolo tecnica tecnico tegola "
    "telefona telefono telefoni tenebra tenebre tenera tenero termina termine termini termometro "
    "timida timido titolo titoli tombola torbido tortora tossico tragico transito trappola "
    "tredici tremito triplice ultima ultime ultimi ultimo umida umido umile umili undici unica "
    "unico uomini utile utili valido vedova vedove vedovo vergine vertice vescovo vescovi vicolo "
    "vicoli vincolo vipera virgola virgole utero inedito satiro laurea lauree antilope diaspora "
    "reciproco reciproca coniuge coniugi riverbero creolo creola visita visite vittima vittime "
    "vocabolo vomito vongola vongole zigomo zingaro zingari zoccolo zucchero adige africa america "
    "adriatico bergamo brindisi cagliari cesare cristoforo domenico empoli genova giacomo mantova "
    "mediterraneo modena monaco napoli padova pesaro rimini sassari stefano svizzera taranto "
    "teramo tevere trapani udine battere bevvero bere cadono caddero capiscono chiedere chiedono "
    "chiudere chiudono chiusero combattere commuovere concedere corrono corsero cedere credere "
    "credono crescono cuocere decidere dicono diedero dipendere discutere dissero dividere "
    "dormono ebbero escono esplodere essere esseri fecero fremere furono gemere godono leggono "
    "lessero mettono mettere mossero muoiono muovere nacquero nascono perdere perdono persero "
    "piacquero piangono piovere possono premere prendono presero ridere ridono rimangono rimasero "
    "ripetere rispondono risposero rompono ruppero salgono scendono scesero scrissero scrivere "
    "scrivono seppero sentono siedono spensero stettero succedere tengono tennero togliere vedono "
    "vendere vendono vengono vennero videro vincono vinsero vissero vivere vivono vogliono "
    "volgere vollero".split()
)
# Verbs whose -ano form is stressed on the last syllable but two.
VERBS = frozenset(
    "abbandona accompagna aiuta alza ama apre arriva ascolta aspetta attraversa balla brilla "
    "cammina canta cerca chiama comincia compra conta continua conosce crea diventa domanda entra "
    "gioca grida guarda guida impara incontra inizia lascia lava lavora manca manda mangia mostra "
    "nota nuota ordina paga parla passa pensa piega porta prepara prova raccoglie racconta resta "
    "ricorda ritorna rimane salta sembra sogna spera studia suona tira tocca torna trova usa "
    "viaggia vola volta".split()
)
# Stressed on the last syllable but one, against their ending.
LATE = frozenset(
    "amica amiche amici amico antica antiche antichi antico bambine bambini camini cammini casini "
    "condono confini contadine contadini corrida cucina cucine cugina cugine cugini destini dica "
    "dico fatica fatiche felice felici fico fichi figliola figliolo fine formica formiche "
    "giardini gola gradini gridano guida guide latini lattuga marine marini mattini matrici "
    "medesimo nemica nemici nemico omicida ortica padrone parola parole perdono piscine radice "
    "radici regine rovine sardine scuola scuole sfida sfide spagnola spagnoli spagnolo suicida "
    "turbine uccide vaccini vescica vicine vicini vernice vernici attrice attrici decide decido "
    "divide divido ubriaco cadere godere possedere provvedere rivedere sedere vedere nocciola "
    "ragnatela capriola aiuole carriola bandiera".split()
)

OPEN_E = frozenset(
    "telefono telefoni telefona adesso albergo alberghi aspetta aspettano aspetto assemblea bella "
    "belle belli bello bene beni bestia bestie centro cento certa certe certi certo cielo collega "
    "deserto destra destro diretta diretto dieci dietro difetto effetti effetto era erano eri "
    "euro europa febbre ferro fiero genere genova gente guerra guerre idea ieri insetti insetto "
    "impero inverno leggo legge leggere lei lento letto letti lieto maestra maestro medico medici "
    "meglio membro merito metro metri mezza mezzo miei mistero museo oggetti oggetto onesto "
    "orchestra pelle pelli pensiero perde perdere perfetto perla pezzi pezzo petto piede piedi "
    "pietra pietre poema presto prendere prende problema progetto quaderno rispetto sede sedia "
    "sedie segue sempre senza seppe serra sette sistema soggetto specchi specchio spero spera "
    "tema tempo tempi tempesta tenero tenera terra terre testa teste treno treni vecchi vecchia "
    "vecchie vecchio vengo viene tengo tiene vento verso versi vengono tengono celebre secolo "
    "secoli credo crede esempio esempi esercito aereo sei palermo venezia america".split()
)
CLOSED_E = frozenset(
    "capelli capello della delle dello nella nelle nello dalla quella quelle quelli quello sella "
    "stella stelle venti mentre fermo ferma fermano cerchio mettere vedere sera sere vero vera "
    "nero nera pera cera sereno veleno allegro verde verdi vergine cenere giovedì pesce pesci "
    "rete reti sete segno legno vetro vetri questa queste questi questo egli vendette credere "
    "temere tenere".split()
)
OPEN_O = frozenset(
    "adora buona buone buoni buono chiodi chiodo collo comico comoda comodo copia copie coppia "
    "coppie coro corpo corpi cosa cose costa coste costano costo costi cristoforo demonio donna "
    "donne doppia doppio eroe eroi fenomeno fenomeni foglia foglie forte forti fuori gioco giochi "
    "gioia gioie giorgio gloria gode gonna gonne grossa grosso lavora lavorano lode logica lotta "
    "memoria modo modi mora morta morte morti morto moto muore negozi negozio nobile nobili noia "
    "nonna nonni nonno nord nostra nostre nostri nostro nota note notte notti nove odio oggi olio "
    "opera opere oro orto ospite osso ossa otto pioggia piogge piovere poca poche pochi poco poi "
    "popolo popoli porco porta portano porte porti porto posta poste povera povere poveri povero "
    "prossima prossimo prova provano prove roba rosa rose ruota ruote scopo scuola scuole so "
    "solido sorte sport sposa stoffa stoffe storia storico storie storica strofa tesoro testimoni "
    "testimonio togliere topo topi toro torta torte torto trova trovano troppa troppi troppo "
    "uomini uomo uova uovo vittoria voglia voglio vogliono vostra vostre vostri vostro voto vuota "
    "vuote vuoti vuoto zona zone cuore cuori gnocchi gnocco no ho può posso possono porpora".split()
)
CLOSED_O = frozenset(
    "condotto conto dopo dove molto mondo nome ora ore sola sole solo sotto volta volte".split()
)
