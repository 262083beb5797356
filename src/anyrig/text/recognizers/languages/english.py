"""English tables: months, shortened words by where they stand, states."""

from __future__ import annotations

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
    "Reps": "Representatives",
    "Govs": "Governors", "Profs": "Professors", "Gens": "Generals", "Ens": "Ensign",
    "Pfc": "Private First Class", "Sgts": "Sergeants", "Lts": "Lieutenants", "Sts": "Saints",
    "Ald": "Alderman", "Dcn": "Deacon", "Ven": "Venerable", "Mses": "Mizzes", "Msgr": "Monsignor",
}  # fmt: skip
"""Before a name."""
FIRST_NAMES = {
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
    "Trl": "Trail", "Plz": "Plaza", "Gdns": "Gardens", "Xing": "Crossing", "Svc": "Service",
    "Svcs": "Services", "Mgmt": "Management", "Agcy": "Agency", "Admin": "Administration",
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

    "admin": "administration", "amt": "amount",
    "attn": "attention", "blvds": "boulevards",
    "cmte": "committee",

    "elev": "elevation", "equiv": "equivalent", "exec": "executive",
    "freq": "frequency", "mfr": "manufacturer",
    "mph": "miles per hour", "pct": "percent", "pkt": "packet",
    "pvt": "private", "recd": "received", "ret": "retired", "supp": "supplement",
    "tbsps": "tablespoons", "tsps": "teaspoons", "wks": "weeks", "sec": "second",
    # Of genealogies.
    "bap": "baptized", "bapt": "baptized", "bur": "buried", "dau": "daughter",
    "daus": "daughters", "rem": "remarried", "unm": "unmarried",
}  # fmt: skip
"""In the middle of a sentence."""
NUMBERED = {
    "Yr": "Year", "yr": "year", "Lv": "Level", "Lvl": "Level",
    "No": "Number", "Nos": "Numbers", "no": "number", "nos": "numbers", "p": "page", "pp": "pages",
    "vol": "volume", "Vol": "Volume", "vols": "volumes", "Vols": "Volumes", "ch": "chapter",
    "Ch": "Chapter", "chap": "chapter", "Chap": "Chapter", "fig": "figure", "Fig": "Figure",
    "figs": "figures", "Figs": "Figures", "FIG": "Figure",
    "eq": "equation", "Eq": "Equation", "sec": "section",
    "Sec": "Section", "sect": "section", "art": "article", "Art": "Article", "ver": "version",
    "Ver": "Version", "pt": "part", "Pt": "Part", "ep": "episode", "Ep": "Episode", "l": "line",
    "ll": "lines", "c": "circa", "ca": "circa", "op": "opus", "Op": "Opus", "bk": "book",
    "Bk": "Book", "para": "paragraph", "par": "paragraph", "tab": "table", "Tab": "Table",
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
    "pg": "page", "Pg": "Page", "pgs": "pages", "Tel": "Telephone",
    "tel": "telephone", "arts": "articles", "Arts": "Articles", "secs": "sections",
    "Secs": "Sections", "eqs": "equations", "Eqs": "Equations", "chs": "chapters",
    "Chs": "Chapters", "eps": "episodes", "pts": "parts", "bks": "books", "approx": "approximately",
}  # fmt: skip
"""Before a number."""
SAINTS = frozenset(
    "Agnes Albans Albert Ambrose Andrew Andrews Anne Anthony Augustine Bart Barts Basil "
    "Benedict Bernard Catherine Charles Christopher Clair Clare Cloud Columba Croix David Denis "
    "Edward Elizabeth Francis George Germain Helena Helens Ignatius Ives James Jerome Joan John "
    "Johns Joseph Jude Kitts Lawrence Louis Lucia Lucie Luke Mark Martin Mary Matthew Michael "
    "Moritz Nicholas Pancras Patrick Paul Pauls Pete Peter Petersburg Stephen Teresa Thomas "
    "Tropez Valentine Vincent".split()
)
WORDS_TOO = frozenset(
    "min exec admin supp ret equiv sec amt apt cont corp cu dist esp ext feat inc max "
    "prev prof pt ref req resp sq temp var bur rem".split()
)
"""Of `LOWER`, those that are words of their own at the end of a sentence."""
NAMES_TOO = frozenset("Cir Ct Dir Est Fla Ill Mass Pl Ter Wash".split())
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
    "Md": "Maryland", "Mich": "Michigan", "Minn": "Minnesota", "Miss": "Mississippi",
    "Mo": "Missouri", "Mont": "Montana", "Neb": "Nebraska", "Nebr": "Nebraska", "Nev": "Nevada",
    "Okla": "Oklahoma", "Ore": "Oregon", "Pa": "Pennsylvania", "Penn": "Pennsylvania",
    "Tenn": "Tennessee", "Tex": "Texas", "Va": "Virginia", "Vt": "Vermont", "Wash": "Washington",
    "Wis": "Wisconsin", "Wyo": "Wyoming", "Ont": "Ontario", "Que": "Quebec", "Alta": "Alberta",
    "Sask": "Saskatchewan", "Man": "Manitoba",
}  # fmt: skip
DOTTED_STATES = {
    "N.Y.": "New York", "N.J.": "New Jersey", "N.C.": "North Carolina", "S.C.": "South Carolina",
    "N.H.": "New Hampshire", "N.M.": "New Mexico", "N.D.": "North Dakota", "S.D.": "South Dakota",
    "R.I.": "Rhode Island", "W.Va.": "West Virginia", "W. Va.": "West Virginia",
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
    "Ruth", "Ezra", "Job", "Song of Songs", "Joel", "Amos", "Obadiah", "Jonah", "Nahum", "Habakkuk",
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
