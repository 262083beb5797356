"""English tables: months, shortened words by where they stand, states."""

from __future__ import annotations

from anyrig.text.recognizers.languages.shared import ShortForm, behind

MONTHS = (
    "January February March April May June July August September October November December".split()
)
WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Prof": "Professor", "Gen": "General",
    "Col": "Colonel", "Sgt": "Sergeant", "Capt": "Captain", "Lt": "Lieutenant", "Maj": "Major",
    "Rev": "Reverend", "Rt": "Right", "Hon": "Honorable", "Sen": "Senator", "Rep": "Representative",
    "Gov": "Governor", "Pres": "President", "Cpl": "Corporal", "Pvt": "Private",
    "Cmdr": "Commander", "Adm": "Admiral", "Brig": "Brigadier", "Insp": "Inspector",
    "Det": "Detective", "Supt": "Superintendent", "Mme": "Madame", "Mlle": "Mademoiselle",
    "Messrs": "Messieurs", "Fr": "Father", "Br": "Brother", "Mt": "Mount", "Ft": "Fort",
    "Atty": "Attorney", "Drs": "Doctors", "Sr": "Sister", "Cdr": "Commander", "Amb": "Ambassador",
    "Sec": "Secretary", "Pt": "Point", "Mmes": "Mesdames", "Sens": "Senators",
    "Reps": "Representatives", "Lk": "Lake", "Bro": "Brother", "Dep": "Deputy", "Bp": "Bishop",
    "Abp": "Archbishop",
    "Govs": "Governors", "Profs": "Professors", "Gens": "Generals", "Ens": "Ensign",
    "Pfc": "Private First Class", "Sgts": "Sergeants", "Lts": "Lieutenants", "Sts": "Saints",
    "Ald": "Alderman", "Dcn": "Deacon", "Ven": "Venerable", "Mses": "Mizzes", "Ld": "Lord",
    "Msgr": "Monsignor", "Commr": "Commissioner", "Commrs": "Commissioners", "Cllr": "Councillor",
    "Spc": "Specialist",
}  # fmt: skip
"""Before a name."""
FIRST_NAMES = {
    "Abr": "Abraham", "Barth": "Bartholomew", "Cath": "Catherine", "Ebenr": "Ebenezer",
    "Marg": "Margaret",
    "Alexr": "Alexander", "Andw": "Andrew", "Benj": "Benjamin", "Chas": "Charles",
    "Danl": "Daniel", "Edw": "Edward", "Edwd": "Edward", "Eliz": "Elizabeth", "Fredk": "Frederick",
    "Geo": "George", "Jas": "James", "Jno": "John", "Jos": "Joseph", "Margt": "Margaret",
    "Matt": "Matthew", "Nathl": "Nathaniel", "Richd": "Richard", "Robt": "Robert",
    "Saml": "Samuel", "Thos": "Thomas", "Wm": "William",
}  # fmt: skip
"""As registers and old books shorten them."""
AFTER = {
    "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Co": "Company",
    "Bros": "Brothers", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "Ave": "Avenue",
    "Av": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane", "Pkwy": "Parkway",
    "Hwy": "Highway", "Sq": "Square", "Ct": "Court", "Pl": "Place", "Ter": "Terrace",
    "Cir": "Circle", "Expy": "Expressway", "Univ": "University", "Dept": "Department",
    "Assn": "Association", "Assoc": "Association", "Govt": "Government", "Bldg": "Building",
    "Natl": "National", "Intl": "International", "Mfg": "Manufacturing", "Apt": "Apartment",
    "Ste": "Suite", "Rm": "Room", "Tpke": "Turnpike", "Rte": "Route", "Twp": "Township",
    "Cty": "County", "Inst": "Institute",
    "Acad": "Academy", "Mgr": "Manager", "Asst": "Assistant", "Dir": "Director",
    "Dist": "District", "Est": "Established", "Ext": "Extension", "Tel": "Telephone",
    "Jct": "Junction", "Ctr": "Center", "Hts": "Heights", "Abn": "Airborne", "Arty": "Artillery",
    "Bn": "Battalion", "Bns": "Battalions",
    "Inf": "Infantry", "Regt": "Regiment", "Div": "Division", "Brig": "Brigade", "Bde": "Brigade",
    "Cav": "Cavalry", "Sqn": "Squadron", "Plt": "Platoon", "Btry": "Battery", "Bty": "Battery",
    "Hosp": "Hospital", "Sch": "School", "Lib": "Library", "Mus": "Museum", "Pk": "Park",
    "Cos": "Companies", "Mts": "Mountains", "Mtn": "Mountain", "Is": "Islands", "Pen": "Peninsula",
    "Cmte": "Committee", "Comm": "Commission", "Fdn": "Foundation", "Org": "Organization",
    "Soc": "Society", "Hdqrs": "Headquarters", "Fwy": "Freeway", "Aly": "Alley", "Cres": "Crescent",
    "Sta": "Station", "Trl": "Trail", "Plz": "Plaza", "Gdns": "Gardens", "Xing": "Crossing",
    "Svc": "Service",
    "Ch": "Church", "Armd": "Armored", "Svcs": "Services", "Mgmt": "Management",
    "Agcy": "Agency", "Admin": "Administration",
}  # fmt: skip
"""After a name, with a capital."""
LOWER = {
    "etc": "et cetera", "vs": "versus", "approx": "approximately", "dept": "department",
    "govt": "government", "misc": "miscellaneous", "max": "maximum", "avg": "average",
    "temp": "temperature", "est": "estimated", "ext": "extension", "tel": "telephone",
    "assoc": "associate", "asst": "assistant", "bldg": "building", "apt": "apartment",
    "mgmt": "management", "mgr": "manager", "mtg": "meeting", "pkg": "package", "qty": "quantity",
    "ref": "reference", "req": "required", "viz": "namely", "cont": "continued",
    "incl": "including", "excl": "excluding", "resp": "respectively", "abbr": "abbreviation",
    "dist": "district", "hwy": "highway", "ave": "avenue", "blvd": "boulevard", "rd": "road",
    "cf": "compare", "ibid": "ibid", "et al": "et al", "feat": "featuring", "prev": "previous",
    "esp": "especially", "orig": "originally", "var": "variable", "intl": "international",
    "natl": "national", "corp": "corporation", "inc": "incorporated", "ltd": "limited",
    "yr": "year", "yrs": "years", "hrs": "hours", "hr": "hour", "mins": "minutes", "lbs": "pounds",
    "oz": "ounces", "tbsp": "tablespoon", "tsp": "teaspoon", "secs": "seconds",
    "appt": "appointment", "ca": "circa", "gov't": "government", "lb": "pound", "wk": "week",
    "sq": "square", "ft": "feet", "prof": "professor", "cu": "cubic", "tbs": "tablespoon",
    "pt": "pint", "qt": "quart",
    "gov": "governor", "min": "minimum", "pres": "president", "sen": "senator", "capt": "captain",
    "sgt": "sergeant", "lt": "lieutenant", "apts": "apartments", "ofc": "office",
    "bldgs": "buildings",
    "depts": "departments", "fwd": "forward", "hosp": "hospital",
    "mo": "month", "mos": "months", "sched": "schedule",
    "univ": "university", "vol": "volume",
    "wt": "weight", "ht": "height", "reg": "regular", "std": "standard",
    "illus": "illustrated", "rev": "revised", "repr": "reprinted",
    "publ": "published",

    "accum": "accumulation", "med": "medium", "admin": "administration", "amt": "amount",
    "attn": "attention", "blvds": "boulevards",
    "cmte": "committee",

    "rebs": "rebounds", "asts": "assists", "avail": "available", "elev": "elevation",
    "equiv": "equivalent", "exec": "executive",
    "mfr": "manufacturer",
    "mph": "miles per hour", "pct": "percent", "pkt": "packet",
    "pvt": "private", "recd": "received", "ret": "retired", "supp": "supplement",
    "tbsps": "tablespoons", "tsps": "teaspoons", "wks": "weeks", "sec": "second",
    "rms": "rooms", "dbl": "double", "exc": "except",
    "abt": "about", "aft": "after", "bef": "before", "betw": "between", "bdrm": "bedroom",
    "bdrms": "bedrooms", "bkfst": "breakfast", "brkfst": "breakfast", "bldrs": "builders",
    "bro": "brother", "bros": "brothers", "conc": "concentrated", "contd": "continued",
    "cont'd": "continued", "cyl": "cylinder", "decd": "deceased", "dens": "density",
    "descr": "description", "diam": "diameter", "dims": "dimensions", "edn": "edition",
    "elem": "elementary", "encl": "enclosed", "engr": "engineer", "equip": "equipment",
    "estab": "established", "exp": "experience", "ext'd": "extended", "frt": "front",
    "furn": "furnished", "gtd": "guaranteed", "hdbk": "handbook", "hdwd": "hardwood",
    "immed": "immediately", "impt": "important", "insur": "insurance", "lge": "large",
    "maint": "maintenance", "mkt": "market", "mktg": "marketing", "mod": "modern",
    "mthly": "monthly", "mtgs": "meetings", "mvmt": "movement", "neg": "negative",
    "negot": "negotiable", "nr": "near", "opp": "opposite", "pkgs": "packages",
    "pls": "please", "plz": "please", "poss": "possible", "pref": "preferred",
    "refrig": "refrigerator", "regs": "regulations", "reqd": "required", "retd": "retired",
    "secy": "secretary", "sgd": "signed", "sgl": "single", "subj": "subject",
    "sugg": "suggested", "temps": "temperatures", "typ": "typically", "unfurn": "unfurnished",
    "util": "utilities", "utils": "utilities", "vic": "vicinity",
    "wkly": "weekly", "wtd": "wanted", "xtra": "extra", "yrly": "yearly", "yng": "young",
    "cond": "condition", "bal": "balance", "chgs": "charges", "whsle": "wholesale",
    "apptd": "appointed", "grad": "graduated", "bibl": "biblical", "lit": "literally",
    "fem": "feminine", "masc": "masculine", "sing": "singular", "transl": "translated",
    "trans": "translated", "perf": "performed", "comp": "composed", "intro": "introduction",
    "sym": "symptoms", "hosps": "hospitals", "inj": "injection", "tabs": "tablets",
    "hse": "house", "gar": "garage", "agt": "agent", "agts": "agents", "spd": "speed",
    "wits": "witnesses", "assy": "assembly", "req'd": "required", "rec'd": "received",
    "grn": "green", "wht": "white", "brn": "brown", "rtn": "return", "svc": "service",
    "svcs": "services", "hols": "holidays", "rel": "released", "disp": "dispense",
    "pmt": "payment", "pmts": "payments", "vns": "violins", "vlns": "violins",
    "intest": "intestate",
    "inn": "innings", "rev'd": "reversed", "rem'd": "remanded", "aff'd": "affirmed",
    "stn": "station", "mtn": "mountain", "mtns": "mountains",
    "gdn": "garden",
    # Of genealogies.
    "bap": "baptized", "bapt": "baptized", "bur": "buried", "dau": "daughter",
    "daus": "daughters", "rem": "remarried", "unm": "unmarried",
    # Of buildings and dictionaries.
    "mezz": "mezzanine", "prin": "principal", "bot": "botanical", "fam": "family",
    "exhib": "exhibition",
    "wkdys": "weekdays", "wkdy": "weekday", "wknds": "weekends", "wknd": "weekend", "rm": "room",
    "adapt": "adapted", "ref'd": "referred", "compl": "completed", "obs": "obsolete",
    "dial": "dialect", "arch": "archaic",
    "colloq": "colloquial", "usu": "usually", "freq": "frequently", "orth": "orthography",
    "ff": "following", "ret'd": "retired", "cttee": "committee", "hist": "historical",
    "introd": "introduced", "rebt": "rebuilt", "ded": "dedicated", "consec": "consecrated",
    "enl": "enlarged", "restd": "restored", "demol": "demolished", "dem": "demolished",
    "circ": "circulation", "blt": "built", "stmt": "statement", "addr": "address",
    "ltr": "letter", "ltrs": "letters", "adj": "adjective", "adv": "adverb",
    "dicts": "dictionaries",
    "pron": "pronoun", "conj": "conjunction", "prep": "preposition", "pub": "published",
    "dict": "dictionary", "illust": "illustrated", "acq": "acquired", "div": "divorced",
    "incorp": "incorporated", "remod": "remodeled", "ppl": "people", "btm": "bottom",
    "mbr": "member", "mbrs": "members", "bsmt": "basement", "chmn": "chairman", "dpt": "department",
    "tkt": "ticket", "tkts": "tickets", "msg": "message", "msgs": "messages", "rpt": "report",
    "rpts": "reports", "twp": "township", "pkwy": "parkway", "mdse": "merchandise",
    "lg": "large", "attd": "attached", "precip": "precipitation", "int'l": "international",
    "nat'l": "national", "dep't": "department", "ass'n": "association", "sec'y": "secretary",
    "educ": "education", "hdqrs": "headquarters", "unk": "unknown",
}  # fmt: skip
"""In the middle of a sentence."""
CLIPPED = dict(
    entry.split(" ", 1)
    for entry in (
        "abp archbishop; abs absolute; acad academic; acct account; accts accounts; "
        "addl additional; adm administration; afft affidavit; agcy agency; agri agricultural; "
        "alum aluminum; amb ambassador; anat anatomy; anc ancient; ann annual; annot annotated; "
        "anon anonymous; ans answer; appl application; archd archdeacon; arr arranged; "
        "art article; artif artificial; assm assembly; assn association; assns associations; "
        "astr astronomy; astron astronomy; atm atmosphere; att attached; atty attorney; "
        "attys attorneys; auth authorized; auto automatic; aux auxiliary; bd board; "
        "biog biography; biol biology; bk book; bio biology; bkg background; bus business; bkgd "
        "background; bp bishop; "
        "bsmt basement; btm bottom; bul bulletin; bx box; calc calculated; cap capacity; "
        "cath catholic; ceil ceiling; cent century; ch chapter; chap chapter; chaps chapters; "
        "chem chemical; chg charge; chm chairman; chmn chairman; cit cited; civ civil; clk clerk; "
        "clr clear; cmd command; cmdr commander; cml commercial; coeff coefficient; col colonel; "
        "coll college; comb combined; comm committee; conf conference; cong congress; "
        "cons consolidated; cor corner; const constant; constr construction; contr contract; "
        "contrib contributed; conv convention; coop cooperative; corr corrected; cosm cosmetic; "
        "cpd compound; cr credit; crit critical; ct court; ctr center; ctrs centers; cty county; "
        "cult cultural; cust customer; cwt hundredweight; decl declaration; def definition; "
        "deg degree; deliv delivery; dep departure; deriv derivative; desc description; "
        "det detached; dev development; diag diagram; diff difference; dim dimension; "
        "dioc diocese; dipl diploma; dir director; disc discount; distr distribution; "
        "doc document; docs documents; dom domestic; doz dozen; dpt department; dup duplicate; "
        "dwg drawing; dwgs drawings; econ economics; educ education; el elevation; "
        "emb embassy; emer emergency; enc enclosed; ency encyclopedia; encyc encyclopedia; "
        "eng engineering; entr entrance; env environment; ep episode; eq equation; ethn ethnic; "
        "eval evaluation; eve evening; exam examination; exer exercise; expt experiment; "
        "fac faculty; fed federal; fict fiction; fig figure; figs figures; fin financial; "
        "fl floor; foll following; fr from; frwy freeway; fut future; gal gallon; gaz gazette; "
        "gen general; geog geography; geol geology; geom geometry; gram grammar; guar guaranteed; "
        "gym gymnasium; hdqrs headquarters; hgt height; hon honorary; hor horizontal; "
        "hyd hydraulic; ill illustrated; imp imported; ind industrial; indef indefinite; "
        "inf information; info information; init initial; inorg inorganic; ins insurance; "
        "insp inspector; inst institute; instr instructor; int interior; inv invoice; "
        "irreg irregular; jct junction; jour journal; jr junior; judg judgment; juv juvenile; "
        "kit kitchen; lab laboratory; labs laboratories; lang language; "
        "lect lecture; leg legal; legis legislature; lgth length; lieut lieutenant; loc location; "
        "lts lieutenants; mach machine; maj major; man manual; "
        "manuf manufacturing; math mathematics; mbr member; mbrs members; mdse merchandise; "
        "meas measurement; mech mechanical; mem memorial; met metropolitan; mfd manufactured; "
        "mfg manufacturing; mid middle; mil military; mkts markets; mntn mountain; mob mobile; "
        "mol molecular; morn morning; msg message; msgs messages; mtd mounted; mts mountains; "
        "mun municipal; mus musical; mut mutual; myth mythology; nat national; nav navigation; "
        "nbr number; nec necessary; neut neuter; nom nominal; num number; obj object; "
        "occ occupation; ofcr officer; ofr officer; opt optional; orch orchestra; "
        "ord ordinance; org organization; orgs organizations; par parish; para paragraph; "
        "paras paragraphs; parl parliament; pat patent; pc piece; pd paid; perh perhaps; "
        "perm permanent; pers personal; pert pertaining; pg page; pharm pharmacy; "
        "phil philosophy; phot photograph; phr phrase; phys physical; pkwy parkway; plur plural; "
        "pos positive; ppl people; prec preceding; pred predicate; prelim preliminary; "
        "prem premium; prim primary; prob probably; proc proceedings; prod production; "
        "prog program; proj project; prop property; pros prosecuting; prot protestant; "
        "prov province; psych psychology; pubs publications; pvts privates; pwr power; "
        "qlty quality; qr quarter; qual quality; quest question; quot quotation; rcpt receipt; "
        "rcvd received; rec recreation; recpt receipt; rect rectangle; refl reflexive; "
        "rehab rehabilitation; reorg reorganization; rep representative; repl replacement; "
        "reps representatives; reqt requirement; reqts requirements; res residence; "
        "resv reservation; rgt regiment; riv river; rlwy railway; rpt report; rt right; "
        "rwy railway; ry railway; sal salary; sch school; sci science; sculp sculpture; sect "
        "section; "
        "sel selected; sem semester; sep separate; seq sequence; serv service; sess session; "
        "sev several; sgts sergeants; shpt shipment; sig signature; sm small; soc society; "
        "sol solution; soln solution; solns solutions; soph sophomore; spec special; "
        "specif specifically; specs specifications; spkr speaker; spp species; srv service; "
        "sta station; stds standards; stge storage; sub substitute; subs subscription; "
        "subst substitute; suff sufficient; sup superior; supt superintendent; surg surgery; "
        "surv survey; sw switch; syn synonym; synd syndicate; sys system; syst system; tbl table; "
        "tech technical; ter terrace; terr territory; theol theology; thou thousand; tkt ticket; "
        "tkts tickets; tng training; topog topography; tot total; tpk turnpike; tpke turnpike; "
        "tr translated; trad traditional; transp transportation; treas treasurer; trib tributary; "
        "trop tropical; twp township; unk unknown; vac vacant; val value; veg vegetable; "
        "veh vehicle; ver version; vert vertical; vet veteran; vid video; vil village; "
        "voc vocational; vocab vocabulary; whol wholesale; whs warehouse; whse warehouse; "
        "wid widow; wrnty warranty; zool zoology"
    ).split("; ")
)
"""Where a small letter or a mark shows that the sentence goes on: `the econ. policy`."""
CLIPPED_LIKE_WORDS = frozenset(
    "abs aft amb anon ann ans arch arr art att auto aux bio bus cap cent chap ch chem cit civ clr "
    "col coll comb conf cong cons const conv coop cor corr cr crit cult cust deg def dep det dev "
    "diag diff dim dip dipl disc doc docs dom dup econ el emb ep eng env eve exam fac fed fig figs "
    "fin fr fut gal gen gram gym hon ill imp ind inf info init ins insp inst int jr kit lab labs "
    "lang leg lib loc mach maj man math mech mem met mid mil mob mol mun mus mut myth nat nav neut "
    "num obj opt ord org orgs par para paras pat pc pd perm pers phil pop pos pred prelim "
    "prem prim "
    "prob prod prof prog proj prom prop props pros prov psych pubs qr qual quest rec rehab "
    "rep reps "
    "res rt ry sal sci sect sel sem seq serv sig sm soc sol soph spec specs sub subs sup surf "
    "sw syn sys "
    "tech ter tot tr trad trans trib trop val veg vet vid vil voc wid".split()
)
"""Of these, those that are words of their own at the end of a sentence: she works in a lab."""
NUMBERED = {
    "Whse": "Warehouse", "whse": "warehouse", "Pkg": "Package", "pkg": "package",
    "Ofc": "Office", "ofc": "office", "Trk": "Track", "trk": "track", "Pmt": "Payment",
    "Ctn": "Carton", "ctn": "carton", "Sht": "Sheet", "sht": "sheet", "Sect": "Section",
    "mag": "magnitude", "Mag": "Magnitude", "Rel": "Released", "Inv": "Invoice",
    "Wk": "Week", "wk": "week", "lvl": "level", "lv": "level", "sz": "size", "Sz": "Size",
    "mm": "measures", "Blk": "Block", "blk": "block", "Cat": "Category", "cat": "category",
    "Mod": "Module", "Ques": "Question", "Qn": "Question", "Grp": "Group", "grp": "group",
    "Gp": "Group", "Iss": "Issue", "iss": "issue", "Sc": "Scene", "sc": "scene", "Exp": "Expires",
    "Hdg": "Heading", "hdg": "heading", "Rwy": "Runway", "rwy": "runway", "Doc": "Document",
    "Ann": "Annex", "Att": "Attachment", "Encl": "Enclosure", "encl": "enclosure",
    "Suppl": "Supplement", "suppl": "supplement", "Dwg": "Drawing", "dwg": "drawing",
    "Pos": "Position", "Rnd": "Round", "rnd": "round", "Sem": "Semester", "Qtr": "Quarter",
    "qtr": "quarter", "Inn": "Inning", "subsec": "subsection", "Subsec": "Subsection",
    "subpara": "subparagraph", "Cyl": "Cylinder", "Fl": "Floor", "Div": "Division", "Ser": "Series",
    "Cert": "Certificate", "cert": "certificate", "Lic": "License",
    "lic": "license", "Obs": "Observation", "Eqn": "Equation",
    "eqn": "equation", "Eqns": "Equations", "eqns": "equations", "Thm": "Theorem",
    "thm": "theorem", "Lem": "Lemma", "Defn": "Definition",
    "fol": "folio", "fols": "folios", "Fol": "Folio", "Elev": "Elevation", "elev": "elevation",
    "Pop": "Population", "Term": "Terminal",
    "Alt": "Altitude", "alt": "altitude", "Temp": "Temperature", "Wt": "Weight", "Ht": "Height",
    "Baro": "Barometer", "baro": "barometer", "Hum": "Humidity", "hum": "humidity",
    "Vis": "Visibility", "vis": "visibility", "Press": "Pressure",
    "Max": "Maximum", "Min": "Minimum", "Avg": "Average", "Yr": "Year", "yr": "year", "Lv": "Level",
    "Lvl": "Level",
    "No": "Number", "Nos": "Numbers", "no": "number", "nos": "numbers", "p": "page", "pp": "pages",
    "vol": "volume", "Vol": "Volume", "vols": "volumes", "Vols": "Volumes", "ch": "chapter",
    "Ch": "Chapter", "chap": "chapter", "Chap": "Chapter", "fig": "figure", "Fig": "Figure",
    "figs": "figures", "Figs": "Figures", "FIG": "Figure",
    "eq": "equation", "Eq": "Equation", "sec": "section",
    "Sec": "Section", "sect": "section", "art": "article", "Art": "Article", "ver": "version",
    "Ver": "Version", "pt": "part", "Pt": "Part", "ep": "episode", "Ep": "Episode", "l": "line",
    "ll": "lines", "c": "circa", "ca": "circa", "op": "opus", "Op": "Opus", "bk": "book",
    "Bk": "Book", "para": "paragraph", "Para": "Paragraph",
    "paras": "paragraphs", "Paras": "Paragraphs",
    "par": "paragraph", "tab": "table", "Tab": "Table",
    "ser": "series", "est": "established", "Est": "Established", "P": "Page", "App": "Appendix",
    "app": "appendix", "ed": "edition", "n": "note", "fn": "footnote", "Rm": "Room", "rm": "room",
    "Apt": "Apartment", "apt": "apartment", "Ste": "Suite", "Rte": "Route", "Hwy": "Highway",
    "hwy": "highway", "Bldg": "Building", "v": "verse", "vv": "verses", "b": "born", "d": "died",
    "r": "ruled", "Flt": "Flight", "Lot": "Lot", "ex": "example", "Ex": "Example", "Q": "Question",
    "Sq": "Square", "Prob": "Problem", "Approx": "Approximately", "Lat": "Latitude",
    "Long": "Longitude", "lat": "latitude", "pop": "population", "Tbl": "Table", "tbl": "table",
    "Rt": "Route", "rt": "route", "Prop": "Proposition", "Props": "Propositions",
    "cl": "clause", "Cl": "Clause", "reg": "regulation", "Reg": "Regulation", "sched": "schedule",
    "Sched": "Schedule", "Exh": "Exhibit", "exh": "exhibit", "Pl": "Plate",
    "pl": "plate", "Stat": "Statutes", "stat": "statute", "Amend": "Amendment", "Amdt": "Amendment",
    "Sess": "Session", "Cong": "Congress", "Mk": "Mark", "Ord": "Ordinance", "Res": "Resolution",
    "Dist": "District", "dist": "district", "Unit": "Unit", "Gr": "Grade", "gr": "grade",
    "Str": "String", "Ln": "Line", "Col": "Column", "col": "column", "Rev": "Revision",
    "pg": "page", "Pg": "Page", "Rd": "Round",
    "plat": "platform", "Plat": "Platform", "Mvt": "Movement",
    "mvt": "movement", "pgs": "pages", "Tel": "Telephone",
    "tel": "telephone", "Ref": "Reference", "Refs": "References", "ref": "reference",
    "refs": "references", "Thms": "Theorems", "Probs": "Problems", "probs": "problems",
    "Defs": "Definitions", "Exs": "Exercises", "exs": "exercises", "Tabs": "Tables",
    "Sects": "Sections", "sects": "sections", "Pts": "Parts", "Bks": "Books", "Cls": "Clauses",
    "cls": "clauses", "Regs": "Regulations", "regs": "regulations", "Apps": "Appendices",
    "Tbls": "Tables", "tbls": "tables", "fns": "footnotes", "Fn": "Footnote",
    "Eps": "Episodes", "Apts": "Apartments", "Rms": "Rooms", "rms": "rooms",
    "Bldgs": "Buildings", "Rtes": "Routes", "rtes": "routes", "rte": "route",
    "Hwys": "Highways", "flt": "flight", "Flts": "Flights", "Wks": "Weeks",
    "Cols": "Columns", "cols": "columns", "Mvts": "Movements",
    "arts": "articles", "Arts": "Articles", "secs": "sections",
    "Secs": "Sections", "eqs": "equations", "Eqs": "Equations", "chs": "chapters",
    "Chs": "Chapters", "eps": "episodes", "pts": "parts", "bks": "books", "approx": "approximately",
}  # fmt: skip
"""Before a number."""
NAMED_NOUNS = (
    "answer apartment apartments appendix article aisle bay berth block box building bus cabin "
    "category channel class clause curve deck dock door entrance exhibit exit figure flat floor "
    "gate generation grade group hall hangar hepatitis highway item level line locker lot model "
    "number option page part pencil phase pier plan platform point question room route row rule "
    "runway schedule seat section size space stage stall stand studio suite table team terminal "
    "tier track type unit vitamin ward wing zone "
    "app. apt. att. bldg. ex. exh. fig. gp. gr. grp. hwy. no. nos. rm. rt. rte. rwy. sched. "
    "ste. tbl."
).split()
"""What a letter or a number behind it names: seat 5B, vitamin C, rm. 12A."""
COURSES = {
    "Acct": "Accounting", "Anat": "Anatomy", "Anthro": "Anthropology", "Astron": "Astronomy",
    "Bio": "Biology", "Biol": "Biology", "Calc": "Calculus", "Chem": "Chemistry",
    "Econ": "Economics", "Eng": "English", "Geog": "Geography", "Geol": "Geology",
    "Hist": "History", "Ling": "Linguistics", "Lit": "Literature", "Math": "Math",
    "Phil": "Philosophy", "Phys": "Physics", "Psych": "Psychology", "Soc": "Sociology",
    "Stats": "Statistics",
}  # fmt: skip
"""Of a university, before the number of a course: Chem. 101."""
SAINTS = frozenset(
    "Agnes Albans Albert Ambrose Andrew Andrews Anne Anthony Augustine Bart Barts Basil "
    "Benedict Bernard Catherine Charles Christopher Clair Clare Cloud Columba Croix David Denis "
    "Edward Elizabeth Francis George Germain Helena Helens Ignatius Ives James Jerome Joan John "
    "Johns Joseph Jude Kitts Lawrence Louis Lucia Lucie Luke Mark Martin Mary Matthew Michael "
    "Moritz Nicholas Pancras Patrick Paul Pauls Pete Peter Petersburg Stephen Teresa Thomas "
    "Tropez Valentine Vincent".split()
)
NUMBER_WORDS = frozenset(
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred thousand few several many half dozen".split()
)
COUNTED = {
    "min": "minute", "mins": "minute", "sec": "second", "secs": "second", "hr": "hour",
    "hrs": "hour", "wk": "week", "wks": "week", "mo": "month", "mos": "month", "yr": "year",
    "yrs": "year", "ft": "foot", "in": "inch", "mi": "mile", "yd": "yard", "yds": "yard",
    "oz": "ounce", "lb": "pound", "lbs": "pound", "gal": "gallon", "gals": "gallon",
    "qt": "quart", "qts": "quart", "pt": "pint", "pts": "point", "tsp": "teaspoon",
    "tbsp": "tablespoon", "doz": "dozen", "deg": "degree", "pct": "percent", "km": "kilometer",
    "kg": "kilogram", "cm": "centimeter",
}  # fmt: skip
"""Units behind a number that is written as a word: two min."""
WORDS_TOO = frozenset(
    "min exec admin ret sec apt cont cu ext feat inc max "
    "prof pt ref req temp var bur rem bro bros mod neg vic cond bal "
    "grad lit fem sing trans perf comp intro sym tabs conc aft inn rel gar disp "
    "pub dial adv prep hist arch div bot fam dict".split()
)
"""Of `LOWER`, those that are words of their own at the end of a sentence."""
NAMES_TOO = frozenset("Cir Ct Dir Est Fla Ill Mass Pl Sta Ter Wash".split())
"""Of `AFTER`, those that need a name or a comma beside them."""
STATES = {
    "AL": "Alabama", "AK": "Alaska", "AZ": "Arizona", "AR": "Arkansas", "CA": "California",
    "CO": "Colorado", "CT": "Connecticut", "DE": "Delaware", "FL": "Florida", "GA": "Georgia",
    "HI": "Hawaii", "ID": "Idaho", "IL": "Illinois", "IN": "Indiana", "IA": "Iowa", "KS": "Kansas",
    "KY": "Kentucky", "LA": "Louisiana", "ME": "Maine", "MD": "Maryland", "MA": "Massachusetts",
    "MI": "Michigan", "MN": "Minnesota", "MS": "Mississippi", "MO": "Missouri", "MT": "Montana",
    "NE": "Nebraska", "NV": "Nevada", "NH": "New Hampshire", "NJ": "New Jersey",
    "NM": "New Mexico", "NY": "New York", "NC": "North Carolina", "ND": "North Dakota",
    "OH": "Ohio", "OK": "Oklahoma", "OR": "Oregon", "PA": "Pennsylvania", "RI": "Rhode Island",
    "SC": "South Carolina", "SD": "South Dakota", "TN": "Tennessee", "TX": "Texas", "UT": "Utah",
    "VT": "Vermont", "VA": "Virginia", "WA": "Washington", "WV": "West Virginia",
    "WI": "Wisconsin", "WY": "Wyoming", "DC": "D C",
}  # fmt: skip
SHORT_STATES = {
    "Ala": "Alabama", "Ariz": "Arizona", "Ark": "Arkansas", "Calif": "California",
    "Colo": "Colorado", "Conn": "Connecticut", "Del": "Delaware", "Fla": "Florida",
    "Ga": "Georgia", "Ida": "Idaho", "Ill": "Illinois", "Ind": "Indiana", "Kan": "Kansas",
    "Kans": "Kansas", "Ky": "Kentucky", "La": "Louisiana", "Mass": "Massachusetts",
    "Md": "Maryland", "Me": "Maine", "Mich": "Michigan", "Minn": "Minnesota", "Miss": "Mississippi",
    "Mo": "Missouri", "Mont": "Montana", "Neb": "Nebraska", "Nebr": "Nebraska", "Nev": "Nevada",
    "Okla": "Oklahoma", "Ore": "Oregon", "Pa": "Pennsylvania", "Penn": "Pennsylvania",
    "Tenn": "Tennessee", "Tex": "Texas", "Va": "Virginia", "Vt": "Vermont", "Wash": "Washington",
    "Wis": "Wisconsin", "Wyo": "Wyoming", "Ont": "Ontario", "Que": "Quebec", "Alta": "Alberta",
    "Sask": "Saskatchewan", "Man": "Manitoba", "Nfld": "Newfoundland",
}  # fmt: skip
STATES_LIKE_WORDS = frozenset("La Del Man Miss Ill Ore Que".split())
DOTTED_STATES = {
    "N.Y.": "New York", "N.J.": "New Jersey", "N.C.": "North Carolina", "S.C.": "South Carolina",
    "N.H.": "New Hampshire", "N.M.": "New Mexico", "N.D.": "North Dakota", "S.D.": "South Dakota",
    "R.I.": "Rhode Island", "W.Va.": "West Virginia", "W. Va.": "West Virginia",
    "N. Va.": "Northern Virginia",
    "N. Mex.": "New Mexico", "N. Dak.": "North Dakota", "S. Dak.": "South Dakota",
    "N. Car.": "North Carolina", "S. Car.": "South Carolina",
    "B.C.": "British Columbia", "P.E.I.": "Prince Edward Island", "N.S.": "Nova Scotia",
}  # fmt: skip
KINGS = frozenset(
    "Henry Louis Elizabeth Edward George James Charles William Richard Napoleon Paul Pius "
    "Benedict Leo Gregory Innocent Urban Clement Alexander Catherine Nicholas Peter Ivan "
    "Frederick Wilhelm Philip Ferdinand Ramses Rameses Ramesses Ptolemy Cleopatra Darius Xerxes "
    "Mary Anne Victoria Margaret Harald Olaf Olav Gustav Christian Haakon Carl Carlos Felipe "
    "Alfonso Joseph Rudolf Rudolph Franz Otto Theodosius Constantine Mehmed Selim Murad Suleiman "
    "Thutmose Amenhotep Seti Robert David Malcolm Baldwin Stephen Sixtus Julius Boniface "
    "Celestine Adrian Martin Eugene Callixtus Maximilian Leopold Albert Umberto Victor Emmanuel "
    "Juan Pedro Manuel Isabella Matthew John Thomas Kamehameha Artaxerxes Cyrus Antiochus "
    "Seleucus Attalus Justinian Basil Michael Charlemagne Lothair Conrad Ludwig Friedrich Karl "
    "Gustavus Sigismund Casimir Boris Feodor Vasily Yaroslav Rama Wenceslaus Samuel Walter Arthur "
    "Andrew Daniel Anthony Harry Frank Hamad Abdullah Hassan Mohammed Muhammad Beatrix Juliana "
    "Wilhelmina Frederik Margrethe Rainier Honoré Nebuchadnezzar Mithridates Pepin Thurston Sammy "
    "Theodore Oscar Ernest Cornelius Hugh Harold Edgar Edmund Ethelred Kenneth Donald Alan Ronald "
    "Patrick Jacob Wesley Tiberius Clovis Childeric Robin Davis Francis Lawrence Marcus".split()
)
TO, AND = "to", "and"
BOOKS = {
    "Gen": "Genesis", "Ex": "Exodus", "Exod": "Exodus", "Lev": "Leviticus", "Num": "Numbers",
    "Deut": "Deuteronomy", "Josh": "Joshua", "Judg": "Judges", "Sam": "Samuel", "Kgs": "Kings",
    "Chr": "Chronicles", "Chron": "Chronicles", "Neh": "Nehemiah", "Est": "Esther",
    "Ps": "Psalm", "Pss": "Psalms", "Prov": "Proverbs", "Eccl": "Ecclesiastes",
    "Eccles": "Ecclesiastes", "Isa": "Isaiah", "Jer": "Jeremiah", "Lam": "Lamentations",
    "Ezek": "Ezekiel", "Dan": "Daniel", "Hos": "Hosea", "Mic": "Micah", "Zech": "Zechariah",
    "Mal": "Malachi", "Matt": "Matthew", "Mt": "Matthew", "Mk": "Mark", "Lk": "Luke", "Jn": "John",
    "Rom": "Romans", "Cor": "Corinthians", "Gal": "Galatians", "Eph": "Ephesians",
    "Phil": "Philippians", "Col": "Colossians", "Thess": "Thessalonians", "Tim": "Timothy",
    "Tit": "Titus", "Philem": "Philemon", "Heb": "Hebrews", "Jas": "James", "Pet": "Peter",
    "Rev": "Revelation",
}  # fmt: skip
MORE_BOOKS = (
    "Ruth", "Ezra", "Job", "Song of Songs", "Song", "Joel", "Amos", "Obadiah", "Jonah", "Nahum",
    "Habakkuk",
    "Zephaniah", "Haggai", "Luke", "John", "Acts", "Mark", "Jude", "James", "Peter", "Psalms",
    "Surah", "Sura", "Qur'an", "Quran",
)  # fmt: skip
"""Books that are not shortened."""
NUMBERED_BOOKS = (
    "Samuel", "Kings", "Chronicles", "Corinthians", "Thessalonians", "Timothy", "Peter", "John",
)  # fmt: skip
"""Those of which there are two or three."""


def name_book(name: str, order: int) -> str:
    """`First Corinthians`."""
    return f"{('First', 'Second', 'Third')[order - 1]} {name}" if order else name


KEYS = {
    "Ctrl": "Control", "Cmd": "Command", "Del": "Delete", "Esc": "Escape", "Opt": "Option",
    "Win": "Windows", "Fn": "Function", "Ins": "Insert", "PgUp": "Page Up", "PgDn": "Page Down",
    "PrtSc": "Print Screen", "Bksp": "Backspace",
}  # fmt: skip
"""What is written on keys, and how they are called."""
KEY_WORD = "key"
SPOKEN_ACRONYMS = frozenset(
    "GNU GIMP GNOME GRUB LAMP LATEX NUMA SCSI RAID SLAM TARDIS RAV AIDS AJAX AMBER "
    "AMOLED ANOVA ASCII ASEAN AWOL BAFTA BASIC BIOS BRICS CAD CAM CAPEX "
    "CAPTCHA CERN COBOL COP COSPLAY COVID CRISPR CRUD DARPA DEFCON DORA DOS EBITDA ENIAC EPCOT "
    "ERISA FEMA FIFA FLOTUS FOMO FORTRAN GATT GIF GUI HAMAS HIPAA HUD Hamas ICE IKEA INTELSAT "
    "INTERPOL ISIS JSON LAN LASER LEGO LIDAR LISP MAGA MASH MENSA MERS MIDI MOMA NAFTA NAN NAND "
    "NASA NASCAR NASDAQ NATO NIKE NIMBY NOAA NOHO NORAD NOW OK OPEC OPEX OSHA OXFAM PEMDAS PETA "
    "PIN POTUS RADAR RAM REST RICO ROM SAG SALT SARS SCOTUS SCUBA SEAL SEALS SIDS SIG SIM SNAP "
    "SOAP SOHO SONAR SPAM START STEAM STEM SWAT TASER TED TEFL TIFF TOEFL TRIBECA UEFA UNESCO "
    "UNICEF UNIVAC UNIX VISA WAC WAN WASP WAV WAVES WYSIWYG YAML YOLO ZIP".split()
)
SPELLED_ACRONYMS = frozenset(
    "AA AAA AARP ABA ABC AC ACLU AD ADD ADHD AEDT AEST AFAIK AFC AFL AI AIM AKA ALS AM AMA "
    "AMC AMD AOC AOL "
    "APA "
    "API APR ASAP ASPCA ATM ATV AV AWS BA BAC BBC BC BCE BS BSc BYOB CEST EEOC EEST ICAO "
    "IMHO IMO IUCN "
    "UEFI UIUC AICPA CBS CE CEO CFO CIA CIO CNN COO "
    "CST CTO DC DDS DIY DJ DNA EDM EDT EEG EKG EMS EMT EOD EOF EOS EPA EPS ER ESA ESL ESPN EST "
    "ETA EU EV FAQ FBI FDA GIS GMT GPS GRE HBO HIV HMS HR IAEA IBM IBS ICU ID IDE IDK IED IEEE "
    "IELTS IMF IOS IOU IP IPA IPCC IPO IPOs IQ IRL IRS ISBN ISO ISSN IT ITV IUD IVF JD KPI LA LGBT "
    "LGBTQ LLC LLP LSE MA MBA MD MI MIT MLA MLB MST MSc MTV MVP NAACP NBA NBC NCAA NFC NFL NGO "
    "NHL NICU NPR NY NZDT NZST OAP OCD OCR OECD OED OJ OLED OMG OS PBS PC PDT PLC PM PR "
    "PST PhD QA RAF RN "
    "RNA ROI RSVP SAT SATs SOS SUV SUVs TSA TV UAE UAV UCL UCLA UCSF UEA UFC UFO UI UK UN UNHCR "
    "UPC UPI UPS URL US USA USAF USB USC USDA USMC USPS USS USSR UTC UV UX VAT VIP VP WWE YMCA "
    "YWCA".split()
)
"""Those that could be taken for words, or are longer than most."""
PLAIN_WORDS = frozenset(
    "A AGE AGO AH AHA AIR ALE ALL AM AN AND ANY APE ARE ART AS ASK AT ATE AYE BAD BAG BAM BAR BE "
    "BED BEG BET BID BIG BIT BOO BOW BOX BOY BRR BUT BUY BY CAN CAR CAT COW CRY CUP CUT DAD DAY "
    "DID DIE DIM DO DOG DRY DUE DUG EAR EAT EGG EH END EYE FAR FAT FEE FEW FIT FIX FLY FOE FOR "
    "FOX FUN GET GO GOD GOT GRR GUN HA HAD HAS HAT HE HELP HEN HER HEY HI HID HIM HIS HIT HMM HO "
    "HOT HOW HUG HUH I ICE IF ILL IN INN IS ITS JOB JOY KEY LAD LAW LAY LEG LET LIE LIP LOG "
    "LOT LOW MAD MAN MAP MAX MAY ME MEN MET MID MIX MOM MUD MY NAH NAY NET NEW NO NOR NOT NOW OAR "
    "ODD OF OFF OH OIL OK OLD ON ONE OOH OR OUR OUT OW OWE OWN PAY PER PIE PIG POT POW PSST PUT "
    "RAN RAT RAW RED ROB ROW RUB RUN SAD SAW SAY SEA SEE SET SHE SHH SIN SIR SIT SIX SKY SO SON "
    "SPY STOP SUN TAX TEA TEN THE TIE TO TOO TOP TOY TRY TWO UGH UH UM UP USE VAN VOW WAR WAS WAY "
    "WE WET WHAT WHO WHY WIN WIT WOE WON WOW YAY YES YET YO YOU ZAP".split()
)
"""Short words that somebody may shout."""
FULL_ACRONYMS = {
    "VRAM": "V RAM", "PhD": "P H D", "PhDs": "P H Ds", "WWII": "World War two",
    "WWI": "World War one",
    "WW2": "World War two", "WW1": "World War one", "JPEG": "jay peg", "JPEGs": "jay pegs",
    "JPG": "J P G", "iOS": "i O S", "macOS": "mac O S", "IEEE": "I triple E",
    "NAACP": "N double A C P", "AAA": "triple A", "H2O": "H two O", "CO2": "C O two",
    "BSc": "B S C", "MSc": "M S C", "mRNA": "m R N A", "WiFi": "Wi-Fi", "WIFI": "Wi-Fi",
    "MLitt": "M Litt", "MPhil": "M Phil", "NCAA": "N C double A", "tRNA": "t R N A",
    "LGBTQ+": "L G B T Q plus", "LGBTQIA+": "L G B T Q I A plus", "pH": "P H", "DoD": "D O D",
    "OpenAI": "Open A I", "ChatGPT": "Chat G P T", "eSIM": "e SIM", "MySQL": "My S Q L",
    "NoSQL": "No S Q L", "PostgreSQL": "Postgres Q L", "kHz": "kilohertz", "MHz": "megahertz",
    "GHz": "gigahertz", "Hz": "hertz", "kWh": "kilowatt hours", "dB": "decibels",
    "Mbps": "megabits per second", "mph": "miles per hour", "N95": "N ninety-five",
    "mc2": "mc squared", "YoY": "year over year", "QoQ": "quarter over quarter",
    "MoM": "month over month",
}  # fmt: skip
# What goes on with the name of a country or a union: the U.S. Senate.
INSTITUTIONS = frozenset(
    "Army Navy Air Marine Marines Coast Congress Senate House Capitol Supreme Court President Vice "
    "Government Department Dept Treasury Secretary Secretaries Ambassador Embassy "
    "Attorney District "
    "Constitution Open Steel Postal Food Federal National Forest Fish Geological Customs Border "
    "Census Bureau Agency Office Commission Council Security General Parliament Prime Minister Rep "
    "Sen Gov Representative Senator Senators Representatives Marshal Marshals Military Special "
    "Olympic Olympics Soccer Bank Bancorp Airways Route Highway Code Citizenship Immigration Trade "
    "Environmental Energy Justice State Defense Education Labor Commerce Agriculture Interior "
    "Naval Secret Central Virgin Grand Masters Women's Men's Patent Securities Commander Chamber "
    "Conference Mission Peacekeeping Human High Charter Environment Development Population World "
    "Children's Women Framework Climate Economic Foreign Home Chancellor Treasurer Ministry "
    "Secretary-General Under-Secretary Assistant Deputy Undersecretary Consul Consulate Mint "
    "Government's Championship Championships Cup Grand Prix Surgeon Solicitor Trustee "
    "Territory".split()
)
_SCALED = {
    "m": "k c m µ n d", "g": "k m µ n p", "L": "m d c µ n h", "W": "k M G m T µ n",
    "V": "k m M µ", "A": "m k µ n", "Wh": "k M G T", "Hz": "k M G T m", "Pa": "k M h G m",
    "J": "k M G T m", "B": "k K M G T P E Ki Mi Gi Ti Pi", "b": "k K M G T",
    "bit": "k M G T Ki Mi Gi", "eV": "k M G T m", "cal": "k", "Ah": "m k", "N": "k M m µ n",
    "s": "m µ n", "ly": "k M G", "pc": "k M G", "mol": "m µ n p k", "M": "m µ n", "U": "m µ",
    "IU": "m µ", "Eq": "m µ", "Osm": "m", "F": "m µ n p", "Ω": "k M G m µ", "t": "k M",
    "px": "M", "H": "m µ n", "T": "m µ n", "C": "m µ n", "Bq": "k M G T m", "Sv": "m µ n",
    "Gy": "m c µ", "Ci": "m µ n", "bar": "m k", "Da": "k M", "VA": "k M", "cd": "m k",
    "FLOPS": "M G T P E", "We": "k M G", "Wt": "k M G", "Wth": "k M G", "Wp": "k M G",
}  # fmt: skip
# How units are written, and the key of each.
_WRITTEN = {
    "yds": "yd", "lbs": "lb", "ozs": "oz", "fl oz": "fl oz", "qts": "qt", "pts": "point",
    "gals": "gal", "Tbsp": "tbsp", "tbs": "tbsp", "tbsps": "tbsp", "tsps": "tsp", "mins": "min",
    "sec": "s", "secs": "s", "hr": "h", "hrs": "h", "yr": "yr", "yrs": "yr", "wk": "wk",
    "wks": "wk", "mos": "mo", "HP": "hp", "ft-lbs": "ft-lb", "in-lbs": "in-lb", "sqft": "sq ft",
    "kt": "kn", "kts": "kn", "pcs": "pc",
    "Cal": "cal", "mm Hg": "mmHg", "MPH": "mph", "km/h": "kph", "kmh": "kph", "MPG": "mpg",
    "RPM": "rpm", "BPM": "bpm", "PSI": "psi", "FPS": "fps", "DPI": "dpi", "Kbps": "kbps",
    "ml": "mL", "dl": "dL", "cl": "cL", "μm": "µm", "μg": "µg", "μs": "µs", "l": "L", "mi": "mi",
    "tabs": "tab", "tab": "tab", "caps": "capsule", "NM": "nmi", "N·m": "Nm", "dB(A)": "dB",
    "dBA": "dB", "bhp": "hp", "mo": "mo", "Torr": "torr",
    "mb": "mbar", "gtt": "drop", "gtts": "drop",
}  # fmt: skip
_PLAIN = (
    "ft in yd mi lb oz gal qt pt tbsp tsp min h hp dB ha ac bbl kn lm lx ly AU ct mcg K Nm MP Å IU "
    "doz cc m g L W V A Hz Pa J N s t B mol Ω Wh cal px F Ah eV mph kph mpg rpm bpm psi "
    "fps dpi ppi "
    "nmi pax wpm ppm ppb bps kbps Mbps Gbps Tbps MBps mmHg inHg ft-lb in-lb kgf Bq Sv Gy Ci "
    "cd Da atm lbf cfm gpm gpd gph BTU cwt"
).split()
_SQUARE = (
    "sq ft",
    "sq in",
    "sq m",
    "sq km",
    "sq mi",
    "sq yd",
    "cu ft",
    "cu m",
    "cu in",
    "cu yd",
    "cu mi",
    "cu cm",
    "cu km",
    "sq cm",
)
_NAMED = {name: name for name in (*_PLAIN, *_SQUARE)} | _WRITTEN
UNITS = {
    prefix + base: prefix + base
    for base, prefixes in _SCALED.items()
    for prefix in prefixes.split()
} | _NAMED
SCALES = {
    "hundred": 2, "thousand": 3, "lakh": 5, "crore": 7, "million": 6, "billion": 9, "trillion": 12,
    "k": 3, "K": 3,
    "m": 6, "M": 6, "mn": 6, "mm": 6, "MM": 6, "mil": 6, "b": 9, "B": 9, "bn": 9, "Bn": 9,
    "t": 12, "T": 12, "tn": 12, "trn": 12,
}  # fmt: skip
SIGNS = {
    **{sign: sign for sign in "$£€¥₹₽₩₺₪₫₴₦₱฿₿"},
    **{code: code for code in (
        "USD GBP JPY AUD CAD CHF CNY RMB INR MXN SEK NZD HKD NOK DKK SGD KRW PLN TRY ZAR PKR kr zł"
    ).split()},
    "EUR": "€", "BTC": "₿", "Rs.": "₹", "Rs": "₹", "kr.": "kr", "US$": "USD", "A$": "AUD",
    "AU$": "AUD", "C$": "CAD", "CA$": "CAD", "HK$": "HKD", "NZ$": "NZD", "S$": "SGD", "R$": "BRL",
}  # fmt: skip
"""Of money, and the currency that each is."""
PERIODS = {
    **dict.fromkeys(("second", "sec", "s"), "s"), **dict.fromkeys(("minute", "min"), "min"),
    **dict.fromkeys(("hour", "hr", "h"), "h"), **dict.fromkeys(("day", "d"), "d"),
    **dict.fromkeys(("week", "wk"), "wk"), **dict.fromkeys(("month", "mo"), "mo"),
    **dict.fromkeys(("year", "yr"), "yr"), **dict.fromkeys(("night", "nt", "nts"), "night"),
    **dict.fromkeys(("person", "pers", "pp"), "person"), **dict.fromkeys(("mile", "mi"), "mi"),
    **dict.fromkeys(("lb", "lbs"), "lb"), **dict.fromkeys(("foot", "ft"), "ft"),
    **dict.fromkeys(("gallon", "gal"), "gal"), **dict.fromkeys(("L", "l"), "L"),
    **dict.fromkeys(("sq ft", "sqft", "sq. ft"), "sq ft"), "acre": "ac", "inch": "in",
    "quart": "qt", "pint": "pt", "yard": "yd", "dozen": "doz", "ton": "t",
    **{key: key for key in (
        "qt pt yd doz km m kg g oz kWh GB bbl ea capita serving dose shift cycle").split()},
}  # fmt: skip
"""What stands behind a stroke, beside other units: `$20/hr`, `3 mg/dose`."""
LEADING = frozenset(
    "mr mrs ms messrs mses dr drs prof rev hon fr br gen col maj capt cmdr cdr lt sgt cpl pvt "
    "sen sens rep reps gov govs pres adm brig amb atty msgr mme mlle ven mt ft supt insp det vs "
    "cf viz approx e.g i.e ed eds wm chas geo jas jos thos st pfc cpt ens".split()
)
"""Titles and the like: a name or a number follows their full stop."""
BEFORE_NUMBER = frozenset(
    "no nos nr num fig figs vol vols p pp pg art arts ch chap cap sec sect eq ex para bldg apt "
    "rte ste rm lot hwy tbl ext op bk pt ep ver par app prop props cl sched reg stat flt lv lvl "
    "q jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed weds thu thur thurs "
    "fri sat sun max min c ca est b d r fl".split()
)
"""These lead to a number only."""
ENDING = frozenset(
    "etc jr sr inc ltd co corp bros p.m a.m pm am u.s u.k u.s.a e.u u.n b.c a.d b.c.e c.e d.c "
    "ph.d m.d b.a m.a st ave av rd blvd ln dr pl sq ct hwy pkwy ter esq llc plc".split()
)
"""May be the last word of a sentence."""
WITHIN = frozenset(
    "def govt dept lbs lb oz tsp tbsp temp tues thurs weds approx est misc avg assn assoc univ "
    "natl "
    "intl mfg ctr hts jct bn inf div regt kg km cm mm hr hrs min mins sec secs yr yrs wk mo ft "
    "in yd mi gal qt pt ref incl excl esp orig cont prev resp sq cu rs wash calif mass penn "
    "tenn conn ariz fla ill mich minn wis okla ont ore kan neb nev ala ark colo del ga ia ind "
    "ky la md mont pa tex vt va miss w.va n.y n.j n.c s.c n.h n.m n.d s.d r.i b.i.d t.i.d q.d "
    "arr dep acct avail ea srs hx dx elev dat "
    "vs al cit ibid e w n s ne nw se sw dist dir mgr asst sup ct cir".split()
)
STARTERS = frozenset(
    "the a an he she it they we i you this that these those there then but and so what when "
    "where why how who if in on at after before my his her our your their its as for yet no yes "
    "now not nobody everyone everybody nothing everything something someone one some all both "
    "most many another each every once since while although though because until unless with "
    "from by to of or nor however meanwhile instead thus perhaps maybe later soon finally "
    "suddenly still even only here did do does is are was were have has had can could will "
    "would should let let's don't didn't please turn go call meet today tomorrow yesterday two "
    "three such few several nearly almost about over under during despite according we're it's "
    "he's she's i'm they're that's there's yours mine ours hers theirs you're we've i've isn't "
    "wasn't can't won't see ask add use take bring keep make check send press click choose select "
    "enter remove stir bake mix pour shake wait try get give leave read write look visit pay apply "
    "repeat serve hold push pull put allow drain rinse drive follow continue sign answer remember "
    "avoid ensure".split()
)
"""Words that open a sentence when they have a capital, and begin no name."""


_NTH = "(?:{})".format(
    "|".join(
        rf"(?<={nth} )"
        for nth in (
            r"\d(?:st|nd|rd|th)", "[Ff]irst", "[Ss]econd", "[Tt]hird", "[Ff]ourth", "[Ff]ifth",
            "[Ss]ixth", "[Ss]eventh", "[Ee]ighth", "[Nn]inth", "[Tt]enth",
        )
    )
)  # fmt: skip
SHORT_FORMS = (
    ShortForm({f"{rank}.": TITLES[rank] for rank in (
        "Lt Sgt Capt Gen Gov Sen Prof Rev Col Maj Profs Sens Reps Govs Drs Rep Supt Insp Cpl Cmdr "
        "Adm Amb Atty Msgr Bp Cdr").split()},
        lead=r"(?:(?<=[Tt]he )|(?<=\d(?:st|nd) )|(?<=[a-z] )|"
             r"(?<=[A-Z]\. )|(?<=(?:Lt|Gy)\. )|(?<=Maj\. )|(?<=Brig\. )|(?<=Atty\. ))",
        rest=r"(?= [a-z(]|[,;)])", weight=1.2),
    ShortForm({"fl.": "floor", "ed.": "edition", "c.": "century", "cent.": "century",
        "gr.": "grade", "min.": "minute", "hr.": "hour", "wk.": "week", "yr.": "year",
        "qtr.": "quarter", "inn.": "inning", "mvt.": "movement", "mvmt.": "movement",
        "flr.": "floor", "gen.": "generation", "blk.": "block", "prec.": "precinct",
        "Mvt.": "Movement", "Fl.": "Floor", "Ed.": "Edition", "Cent.": "Century", "Gr.": "Grade",
        "Qtr.": "Quarter", "Inn.": "Inning"}, lead=_NTH, ends="any", weight=1.4),
    ShortForm({"c.": "century", "cent.": "century"}, lead=r"(?<=\d(?:st|nd|rd|th) )",
        rest=r"(?=,? (?:B\.?C|A\.?D|C\.?E))", weight=2),
    ShortForm({"Gen.": "Generation"}, rest=r"(?= (?:X|Y|Z|Alpha) [a-z])", weight=2),
    ShortForm({"Sec.-Gen.": "Secretary-General", "Maj.-Gen.": "Major-General",
        "Lt.-Gen.": "Lieutenant-General", "Brig.-Gen.": "Brigadier-General",
        "Lt.-Col.": "Lieutenant-Colonel", "Atty.-Gen.": "Attorney-General",
        "Lt.-Gov.": "Lieutenant-Governor", "Gov.-Gen.": "Governor-General",
        "Lt.-Cmdr.": "Lieutenant-Commander", "Vice-Pres.": "Vice-President"}, weight=2),
    ShortForm({"Ave.": "Avenue"}, lead=behind("and", "on", "at", "to", "of", "near", "from", "in"),
        rest=r"(?= [B-D](?:(?![\w'])|\.(?: |$)))", weight=1.8),
    ShortForm({"Const.": "Constitution"}, weight=1.4),
    ShortForm({f"{short}.": BOOKS[short] for short in (
        "Exod Lev Deut Josh Judg Kgs Chron Neh Ps Pss Prov Eccl Isa Jer Ezek Hos Zech Rom Cor "
        "Thess Eph Heb").split()}, rest=r"(?= \d{1,3}\b)", weight=1.4),
    ShortForm({"St.": "State"}, rest=r"(?= (?:Hwy|Rte|Rt|Rd|Highway|Route|Road)\.? \d)", weight=4),
    ShortForm({"Yrs.": "Years"}, rest=r"(?= (?:ago|of|old|later|in|from|since|on)\b)", weight=2),
    ShortForm({"Ofc.": "Officer"}, rest=r"(?= [A-Z][a-z])", weight=1.6),
    ShortForm({"sat.": "saturation", "Sat.": "Saturation"}, lead=behind("O2", "O₂", "[Oo]xygen"),
        ends="any", weight=2),
    ShortForm({"Ed.": "Editor's"}, rest=r"(?= notes?:)", weight=2),
    ShortForm({"Rev.": "Revenue", "Revs.": "Revenues"},
        rest=r"(?= (?:rose|fell|grew|was|were|up|down|"
        r"beat|missed|climbed|jumped|dropped|for|of) )", weight=1.8),
    ShortForm({"Shs.": "Shares", "shs.": "shares"}),
    ShortForm({"rt.": "right"}, lead=behind("[Oo]n the", "[Tt]o the", "[Yy]our"), ends="any"),
    ShortForm({"req.": "request"}, lead=behind("[Oo]n", "[Uu]pon", "[Bb]y"), ends="any",
        weight=1.6),
    ShortForm({"ed.": "edition"}, lead=behind("[Rr]evised", "[Ll]imited", "[Ll]atest",
        r"[Rr]ev\.", "[Nn]ew", "[Ss]pecial", "[Pp]aperback", "[Ii]nternational"), ends="any"),
    ShortForm({"elev.": "elevator"}, lead=behind("[Tt]he", "[Aa]n", "freight", "passenger"),
        rest=r"(?= (?:on|to|is|was|at|door|shaft|lobby|car|bank)\b)", weight=1.8),
    ShortForm({f"{short}.": name for short, name in SHORT_STATES.items()},
        rest=r"(?= (?:River|R\.|Keys|Valley|Delta|Turnpike|Legislature|Supreme Court|Senate|Gov\.|"
             r"Assembly|State|National Guard|coast|law)(?![\w']))", weight=1.8),
    ShortForm({"Ill.": "Illinois"}, lead=behind("of", "in", "from", "downstate", "southern"),
        ends="any"),
    ShortForm({"w/e": "week ending"}, rest=r"(?= (?:\d|[A-Z][a-z]{2}))"),
    ShortForm({"w/e": "weekend"}, rest=r"(?! (?:\d|[A-Z][a-z]{2}))"),
    ShortForm({"ed.": "editor", "eds.": "editors"}, lead=behind("[Tt]he"),
        rest=r"(?= (?:of the|regrets?|adds?|notes?|says?|said|was|is|has|wrote|writes|are|were)\b)",
        weight=1.8),
    ShortForm({"cap.": "capsule", "caps.": "capsules"}, lead=behind(r"\d", "mg", "mcg", "g", "IU"),
        ends="any", weight=1.6),
    ShortForm({"rt.": "right", "lt.": "left", "Rt.": "Right", "Lt.": "Left"},
        lead=behind("[Tt]urn", "[Bb]ear", "[Kk]eep", "[Vv]eer", "[Tt]hen", "[Hh]ard"), ends="any",
        weight=1.8),
    ShortForm({"est.": "estimate", "ests.": "estimates"}, lead=r"(?<=[A-Za-z] )",
        rest=r"(?= (?:is|was|were|are|of|for|at|by|came|rose|fell|has|had)\b)", weight=1.6),
    ShortForm({"Pat.": "Patent", "pat.": "patent", "Pats.": "Patents", "pats.": "patents"},
        rest=r"(?= (?:No|Nos|no|nos|pending|pend|app|appl|Off|Pub)\b)", weight=1.6),
    ShortForm({"EST.": "Established", "ESTD.": "Established", "Estd.": "Established",
        "Estab.": "Established", "estd.": "established"}, rest=r"(?= (?:in )?(?:1[5-9]|20)\d\d\b)",
        weight=1.8),
    ShortForm({"lat.": "latitude", "long.": "longitude", "Lat.": "Latitude", "Long.": "Longitude"},
        rest=r"(?= (?:is|was|of|and|on)\b)"),
    ShortForm({f"{short}.": noun for short, noun in COUNTED.items()},
        lead=behind(r"\bper", r"[\ds¢] a", r"[\ds¢] an", "nce a", "nce an", "ice a", "ice an"),
        ends="any", weight=1.6),
    ShortForm({f"{short}.": words for short, words in COURSES.items()}, rest=r"(?= \d{3}\b)",
        weight=1.6),
    ShortForm({"inc.": "income"}, lead=behind("[Nn]et", "[Gg]ross", "[Oo]perating", "[Tt]axable",
        "[Hh]ousehold", "[Ff]amily", "[Aa]nnual", "[Ii]nterest"), ends="any", weight=1.6),
    ShortForm({"st.": "street"}, lead=behind("[Tt]he", "[Tt]his", r"\b[Aa]", "[Oo]ur", "main",
        "one-way", "side", "back"), ends="any", weight=1.6),
    ShortForm({"tog.": "together"}, ends="any"),
    ShortForm({"sts.": "stitches", "sts": "stitches"}, lead=behind(r"\d"), ends="any"),
    ShortForm({"dec.": "decrease", "inc.": "increase"}, rest=r"(?= \d+ sts?\b)", weight=1.8),
    ShortForm({"blk.": "black"}, rest=r"(?= (?:&|and) wh)", weight=1.8),
    ShortForm({"Ave.": "Average"}, rest=r"(?= (?:temp|speed|w[te]|price|age|cost|rain|hum))",
        weight=1.8),
    ShortForm({"bur.": "buried", "bap.": "baptized", "bapt.": "baptized", "res.": "resided"},
        lead=behind("[,;]"), rest=r"(?= (?:at |in )?[A-Z\d])", weight=1.8),
    ShortForm({"rep.": "repeat", "Rep.": "Repeat"},
        rest=r"(?= (?:from|rows?|rnds?\.?|to end|until|between|last|this|"
             r"\d+ times)\b)", weight=1.8),
    ShortForm({"app.": "appendix"}, lead=behind("[Tt]he", "[Ss]ee", "[Tt]his"),
        rest=r"(?= (?:on|at|to|of|in|for|below|above|has|is|p\.)(?!\w))", weight=1.6),
    ShortForm({"U": "units"}, lead=behind(r"\d"),
        rest=r"(?=/|,? (?:of|s\.c|SC|i\.v|IV|i\.m|IM|sub|at|before|with|daily|per|insulin|every))",
        weight=1.8),
    ShortForm({"BR": "bedroom", "BA": "bath", "br.": "bedrooms", "ba.": "baths"},
        lead=behind("[½\\d]"), ends="any", weight=1.8),
    ShortForm({"pkg.": "parking"}, lead=behind("w/", "[Ff]ree", "street", "[Gg]arage", "[Vv]alet"),
        ends="any", weight=1.6),
    ShortForm({"Sts.": "Streets", "Aves.": "Avenues", "Rds.": "Roads", "Blvds.": "Boulevards"},
        lead=behind("[a-z]"), ends="any", weight=1.8),
    ShortForm({"Ave.": "Avenue"}, lead="(?<![a-z] )",
        rest=r"(?= (?:[B-D](?![\w.'])|A(?:[,;:]| (?:is|was|and|in|at|near|to|has|had)\b)))",
        weight=1.8),
    ShortForm({"v.": "versus", "vs.": "versus"}, rest=r"(?= [A-Z])", weight=1.2),
    ShortForm({"v": "versus"}, lead=behind("[a-z]"), rest=r"(?= [A-Z][a-z])", weight=1.6),
    ShortForm({"&c.": "et cetera", "&c": "et cetera"}, ends="any"),
    ShortForm({"Sym.": "Symphony", "Conc.": "Concerto", "Son.": "Sonata", "Qt.": "Quartet"},
        rest=r"(?= (?:No\.|in [A-G]\b|#\d))", weight=1.6),
    ShortForm({"Exc. cond.": "Excellent condition", "exc. cond.": "excellent condition"},
        ends="any"),
    ShortForm({"fl.": "flourished"}, rest=r"(?= (?:c\. )?1\d{3}\b)"),
    ShortForm({"Ed.": "Education"}, lead=behind("Board of", r"Dept\. of", "of Higher"),
        ends="any", weight=1.6),
    ShortForm({"ms.": "manuscript", "mss.": "manuscripts"},
        lead=behind("[Tt]he", r"\ba", "[Tt]his", "in", "original", "of"), ends="any"),
    ShortForm({"resp.": "respiration", "Resp.": "Respiration"}, rest=r"(?=:? \d)"),
    ShortForm({"R.": "right", "L.": "left"}, lead=behind("[Tt]urn"), ends="any", weight=1.6),
    ShortForm({"R.": "right", "L.": "left"}, lead=behind("[Tt]hen"), ends="any", weight=1.6),
    ShortForm({"R.": "right", "L.": "left"}, lead=behind("[Bb]ear", "[Kk]eep"), ends="any",
        weight=1.6),
    ShortForm({"pop.": "population", "Pop.": "Population"}, rest=r"(?= (?:approx|about|est)\b)",
        weight=1.6),
    ShortForm({"app.": "appendix", "App.": "Appendix", "Sched.": "Schedule"},
        rest=r"(?= [A-F](?![\w']))", weight=1.6),
    ShortForm({"no.": "number", "nos.": "numbers"},
        lead=behind(r"acct\.", r"tel\.", "[Aa]ccount", "phone", "[Ss]erial"), ends="any",
        weight=1.6),
    ShortForm({"n.": "noun"}, lead=behind(r"\ba"), rest=r"(?! ?\d)", ends="any", weight=1.6),
    ShortForm({"(ret.)": "retired,", "(Ret.)": "retired,"}, weight=1.6),
    ShortForm({"Cir.": "Circuit"}, lead=behind(r"\dth", r"\d[ns]t", r"\d[rn]d", r"\dd"),
        ends="any", weight=1.8),
    ShortForm({"Lat.": "Latin", "Gr.": "Greek", "Skt.": "Sanskrit", "Ger.": "German",
        "Heb.": "Hebrew", "Ital.": "Italian", "Span.": "Spanish", "Fr.": "French",
        "Eng.": "English", "Dan.": "Danish", "Arab.": "Arabic", "Goth.": "Gothic",
        "Icel.": "Icelandic", "Russ.": "Russian", "Swed.": "Swedish", "Norw.": "Norwegian",
        "Port.": "Portuguese", "Pers.": "Persian"}, rest=r"(?= [a-zà-ÿ*‘'\x22])", weight=1.4),
    ShortForm({"arr.": "arrival", "dep.": "departure"}, lead=behind("of"), ends="any",
        weight=1.8),
    ShortForm({"dep.": "deputy"}, rest=r"(?= (?:sheriff|director|chief|mayor|gov|min|sec))",
        weight=1.8),
    ShortForm({"gen.": "general"}, lead=behind("attorney"), ends="any", weight=1.8),
    ShortForm({"gen.": "general"}, lead=behind("solicitor"), ends="any", weight=1.8),
    ShortForm({"auto.": "automatic"}, rest=r"(?= trans)"),
    ShortForm({"trans.": "transmission"}, lead=behind(r"auto\.", "automatic", "manual", r"man\."),
        ends="any", weight=1.8),
    ShortForm({"cat.": "catalog", "Cat.": "Catalog"}, rest=r"(?= [nN]os?\.)", weight=1.8),
    ShortForm({"Ofcr.": "Officer", "Gt.": "Great"}, rest=r"(?= [A-Z])"),
    ShortForm({"Refs.": "References", "refs.": "references"}, rest=r"(?=:)"),
    ShortForm({"Coll.": "Collected"}, rest=r"(?= (?:Works|Poems|Papers|Letters|Essays)\b)"),
    ShortForm({"Decl.": "Declaration"}, rest=r"(?= (?:of|was|is|at|¶|§))"),
    ShortForm({"Ret.": "Retired"}, rest=r"(?=,)"),
    ShortForm({"o'clk.": "o'clock"}, ends="any"),
    ShortForm({"fam.": "family"}, rest=r"(?= [A-Z][a-z]+(?:aceae|idae|ales)\b)"),
    ShortForm({"orig.": "original"}, lead=behind("[Tt]he", "[Aa]n", "its", "their", "this"),
        rest=r"(?= [a-z])", weight=1.8),
    ShortForm({"rev.": "revision"}, rest=r"(?= \d{1,2}(?!\d))", weight=1.6),
    ShortForm({"Sec.": "Secretary"}, rest=r"(?= of (?:State|Defense|War|Labor|the))", weight=1.8),
    ShortForm({"agg.": "aggregate"}, rest=r"(?= \d)", weight=1.6),
    ShortForm({"prep.": "preparation"}, rest=r"(?= time| work)", weight=1.8),
    ShortForm({"R.": "River"}, lead=behind("[a-z]"),
        rest=r"(?= (?:at|near|from|in|and|flows|runs|is|was|to|for|bank|valley)\b)", weight=1.2),
    ShortForm({"Ag.": "Agriculture", "Agric.": "Agriculture"}, lead=behind("on", "of", "for"),
        ends="any"),
    ShortForm({"Comm.": "Committee"}, rest=r"(?= on )", weight=1.8),
    ShortForm({"Reg.": "Regulation"}, rest=r"(?= [A-Z](?:-[A-Z])?\b)", weight=1.8),
    ShortForm({"dep.": "deposit"}, rest=r"(?= ?:? ?[$£€])", weight=1.8),
    ShortForm({"ult.": "ultimo", "inst.": "instant", "prox.": "proximo"},
        lead=r"(?<=\d(?:st|nd|rd|th) )", ends="any", weight=1.8),
    ShortForm({"Yr. obt. servt.": "Your obedient servant",
        "yr. obt. servt.": "your obedient servant", "Yr. humble servt.": "Your humble servant",
        "Yrs.": "Yours", "obt.": "obedient", "servt.": "servant", "Compl.": "Complaint"}),
    ShortForm({"Def.": "Defendant", "Pl.": "Plaintiff"},
        rest=r"(?= (?:moves|argues|filed|files|claims|seeks|denies|alleges|contends|appeals|"
        r"asserts|responds)\b)",
        weight=1.8),
    ShortForm({"Def.": "Defendant", "Pl.": "Plaintiff"}, rest=r"(?='s\b)", weight=1.8),
    ShortForm({"Eff.": "Effective"}, rest=r"(?= (?:Date|date|\d|[A-Z][a-z]+ \d))", weight=1.8),
    ShortForm({"C.": "Cape"},
        rest=r"(?= (?:Horn|Cod|Hatteras|Verde|Fear|Canaveral|Finisterre|Trafalgar|"
        r"St\. Vincent)\b)",
        weight=1.8),
    ShortForm({"ov.": "overs"}, lead=behind(r"\d"), ends="any", weight=1.8),
    ShortForm({"Tech.": "Technical"}, rest=r"(?= Sgt)", weight=1.8),
    ShortForm({"N. lat.": "north latitude", "S. lat.": "south latitude"}, ends="any", weight=1.8),
    ShortForm({"E. long.": "east longitude", "W. long.": "west longitude"}, ends="any",
        weight=1.8),
    ShortForm({"Rep.": "Representative", "Gov.": "Governor", "Sen.": "Senator",
        "Pres.": "President"}, rest=r"(?=-(?:elect|designate)\b)", weight=1.8),
    ShortForm({"m.": "measure"}, lead=behind("from", "at", "in", "to"),
        rest=r"(?= \d{1,3}\b(?! [a-z]))"),
    ShortForm({"Co.": "County"},
        rest=r"(?= (?:Antrim|Armagh|Carlow|Cavan|Clare|Cork|Derry|Donegal|Down|Dublin|Durham|"
        r"Fermanagh|Galway|Kerry|Kildare|Kilkenny|Laois|Leitrim|Limerick|Longford|Louth|"
        r"Mayo|Meath|Monaghan|Offaly|Roscommon|Sligo|Tipperary|Tyrone|Waterford|"
        r"Westmeath|Wexford|Wicklow|Rd|Road|Hwy|Highway|Rte|Route|Commr|Comm|Commission|"
        r"Clerk|Sheriff|Council|Courthouse|Executive|Judge|Atty|Attorney)\b)",
        weight=1.8),
    ShortForm({"Conf.": "Conference"}, rest=r"(?= (?:Rm\.|Room\b|Call\b))"),
    ShortForm({"c.": "century"}, lead=behind("[IVX]th", "[VX][IVX]", "I[IVX]"), ends="any",
        weight=1.4),
    ShortForm({"Flt.": "Flight"}, rest=r"(?= [A-Z]{2} ?\d)"),
    ShortForm({"K.": "K", "D.": "D"}, rest=r"(?= \d{2,3}[a-z]?\b(?! [A-Z]\w+ (?:St|Ave|Rd)))",
        weight=1.4),
    ShortForm({"Tel": "Telephone"}, rest=r"(?=:)"),
    ShortForm({"no.": "number"}, rest=r"(?= is\b)"),
    ShortForm({"est.": "established"}, rest=r"(?= (?:in|c\.|ca\.) )"),
    ShortForm({"co.": "company"}, lead=behind("[Tt]he"), ends="any"),
    ShortForm({"pk.": "pack"}, lead=behind(r"\d"), ends="any"),
    ShortForm({"Assoc.": "Associate"}, rest=r"(?= Prof)"),
    ShortForm({"dat.": "dated"}, rest=r"(?= \d)"),
    ShortForm({"Dep.": "Departs", "dep.": "departs", "Arr.": "Arrives", "arr.": "arrives"},
        rest=r"(?= (?:[A-Z][\w'-]+ ){0,3}(?:at )?\d{1,2}[:.h]\d\d)", weight=1.6),
    ShortForm({"Adm.": "Admission"}, rest=r"(?= ?:? ?[$£€]| free)", weight=1.6),
    ShortForm({"srs.": "seniors"}, rest=r"(?= [$£€\d])"),
    ShortForm({"pp.": "pages"}, lead=behind(r"\d"), rest=r"(?! ?\d)", ends="any"),
    ShortForm({"Bros.": "Brothers"}, lead=behind("[Tt]he"), rest=r"(?= [A-Z])", weight=1.6),
    ShortForm({"sc.": "scene"}, rest=r"(?= [ivx]+\b)"),
    ShortForm({"Dep.": "Deposit"}, rest=r"(?= ?:? ?[$£€])", weight=1.6),
    ShortForm({"MS.": "Manuscript", "MSS.": "Manuscripts"}, rest=r"(?= \d)", weight=1.6),
    ShortForm({"pp.": "per person", "pp": "per person"}, lead=behind(r"[£$€]\d\d", r"[£$€]\d\d\d"),
        ends="any", weight=2),
    ShortForm({"ea.": "each"}, lead=behind(r"\d", "[a-z]"), ends="any"),
    ShortForm({"Bp.": "Bishop", "Abp.": "Archbishop"}, rest=r"(?= of )"),
    ShortForm({"Ref.": "Reference", "Acct.": "Account", "acct.": "account"}, weight=1.3),
    ShortForm({"long.": "longitude", "Long.": "Longitude"}, rest=r"(?= \d+(?:\.\d+)? ?°)"),
    ShortForm({"S.": "Section", "s.": "section", "Ss.": "Sections", "ss.": "sections"},
        rest=r"(?= ?\d+[A-Z]?(?:\(|[-–]\d+ of| of the))"),
    ShortForm({"hx": "history", "dx": "diagnosis", "Hx": "History", "Dx": "Diagnosis"},
        rest=r"(?= of|:)"),
    ShortForm({"pt.": "patient", "Pt.": "Patient"}, lead=r"(?<!\d )(?<!\d)",
        rest=r"(?= (?:is|was|has|had|denie[sd]|reports|presents|states|complains|appears|remains|"
        r"continues|will|underwent|can|cannot|may|must|should|needs|slept|ate|felt|came|went|left|"
        r"fell|says|said|took|got|began|lost|gave|with|[a-z]{2,}ed)\b)"),
    ShortForm({"min.": "minor", "min": "minor", "maj.": "major", "maj": "major"},
        lead=r"(?:(?<=\b[A-G] )|(?<=[A-G][♯♭#] )|(?<=[A-G]-flat ))", rest=r"(?=[ ,.;:)]|$)",
        ends="any", weight=1.6),
)  # fmt: skip
"""In the order in which they are tried."""
