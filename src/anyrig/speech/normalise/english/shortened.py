"""Shortened words and what they stand for, by where they stand."""

from __future__ import annotations

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
TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Prof": "Professor", "Gen": "General",
    "Col": "Colonel", "Sgt": "Sergeant", "Capt": "Captain", "Lt": "Lieutenant", "Maj": "Major",
    "Rev": "Reverend", "Hon": "Honorable", "Sen": "Senator", "Rep": "Representative",
    "Gov": "Governor", "Pres": "President", "Cpl": "Corporal", "Pvt": "Private",
    "Cmdr": "Commander", "Adm": "Admiral", "Brig": "Brigadier", "Insp": "Inspector",
    "Det": "Detective", "Supt": "Superintendent", "Mme": "Madame", "Mlle": "Mademoiselle",
    "Messrs": "Messieurs", "Fr": "Father", "Br": "Brother", "Mt": "Mount", "Ft": "Fort",
    "Atty": "Attorney", "Drs": "Doctors", "Sr": "Sister", "Cdr": "Commander", "Amb": "Ambassador",
    "Sec": "Secretary", "Pt": "Point", "Ven": "Venerable", "Mses": "Mizzes", "Msgr": "Monsignor",
    "Wm": "William", "Chas": "Charles", "Geo": "George", "Thos": "Thomas",
}  # fmt: skip
"""Before a name."""
AFTER = {
    "Inc": "Incorporated", "Ltd": "Limited", "Corp": "Corporation", "Co": "Company",
    "Bros": "Brothers", "Jr": "Junior", "Sr": "Senior", "Esq": "Esquire", "Ave": "Avenue",
    "Av": "Avenue", "Blvd": "Boulevard", "Rd": "Road", "Ln": "Lane", "Pkwy": "Parkway",
    "Hwy": "Highway", "Sq": "Square", "Ct": "Court", "Pl": "Place", "Ter": "Terrace",
    "Cir": "Circle", "Expy": "Expressway", "Univ": "University", "Dept": "Department",
    "Assn": "Association", "Assoc": "Association", "Govt": "Government", "Bldg": "Building",
    "Natl": "National", "Intl": "International", "Mfg": "Manufacturing", "Apt": "Apartment",
    "Ste": "Suite", "Rm": "Room", "Tpke": "Turnpike", "Rte": "Route", "Twp": "Township",
    "Cty": "County", "Calif": "California", "Mass": "Massachusetts", "Penn": "Pennsylvania",
    "Tenn": "Tennessee", "Conn": "Connecticut", "Ariz": "Arizona", "Fla": "Florida",
    "Ill": "Illinois", "Mich": "Michigan", "Minn": "Minnesota", "Wash": "Washington",
    "Wis": "Wisconsin", "Okla": "Oklahoma", "Ont": "Ontario", "Inst": "Institute",
    "Acad": "Academy", "Mgr": "Manager", "Asst": "Assistant", "Dir": "Director",
    "Dist": "District", "Est": "Established", "Ext": "Extension", "Tel": "Telephone",
    "Jct": "Junction", "Ctr": "Center", "Hts": "Heights",
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
    "Long": "Longitude", "lat": "latitude",
}  # fmt: skip
"""Before a number."""
FIXED = {
    r"Tel(?=:)": "Telephone", r"no\.(?= is\b)": "number",
    r"e\.g\.,?": "for example,", r"eg\.,?": "for example,", r"i\.e\.,?": "that is,",
    r"ie\.,?": "that is,", r"[Aa]\.k\.a\.": "also known as", "a/k/a": "also known as",
    r"op\. cit\.": "op cit", r"et al\.": "et al", r"P\.P\.S\.": "P P S", r"q\.v\.": "which see",
    r"Ph\.D\.s": "P H Ds", r"Ph\. ?D\.": "P H D", r"B\.Sc\.": "B S C", r"M\.Sc\.": "M S C",
    r"D\.Phil\.": "D Phil", r"M\.Phil\.": "M Phil", r"Ed\.D\.": "E D D", r"Psy\.D\.": "Psy D",
    r"r\.p\.m\.": "revolutions per minute", r"m\.p\.h\.": "miles per hour", r"LL\.B\.": "L L B",
    r"LL\.M\.": "L L M", r"Litt\.D\.": "Litt D", r"sq\. ?ft\.": "square feet",
    r"fl\. ?oz\.": "fluid ounces", r"n\.b\.": "N B", r"o\.k\.": "okay", r"c\.v\.": "C V",
    r"p\.a\.": "per annum", r"w\.r\.t\.": "with respect to", r"E\.g\.,?": "For example,",
    r"I\.e\.,?": "That is,", r"Assoc\.(?= Prof)": "Associate", r"Inf\.(?= Div| Reg)": "Infantry",
    r"Gen\.(?= \d+:\d)": "Genesis", r"Matt\.(?= \d+:\d)": "Matthew", r"Div\.": "Division",
    r"Sat\.(?= [a-z])": "Saturday", r"Sun\.(?= [a-z])": "Sunday",
    r"(?<=\dth )c\.(?! [A-Z\d])": "century", r"(?<=\dth )cent\.": "century",
    r"Lake Dr\.(?= [a-z])": "Lake Drive",
}  # fmt: skip
"""Patterns that mean the same wherever they stand."""
SAINTS = frozenset(
    "Agnes Albans Albert Ambrose Andrew Andrews Anne Anthony Augustine Bart Barts Basil "
    "Benedict Bernard Catherine Charles Christopher Clair Clare Cloud Columba Croix David Denis "
    "Edward Elizabeth Francis George Germain Helena Helens Ignatius Ives James Jerome Joan John "
    "Johns Joseph Jude Kitts Lawrence Louis Lucia Lucie Luke Mark Martin Mary Matthew Michael "
    "Moritz Nicholas Pancras Patrick Paul Pauls Pete Peter Petersburg Stephen Teresa Thomas "
    "Tropez Valentine Vincent".split()
)
WORDS_TOO = frozenset(
    "apt cont corp cu dist esp ext feat inc max prev prof pt ref req resp sq temp var".split()
)
"""Of `LOWER`, those that are words of their own at the end of a sentence."""
NAMES_TOO = frozenset("Cir Ct Dir Est Fla Ill Mass Pl Ter Wash".split())
"""Of `AFTER`, those that need a name or a comma beside them."""
