"""The states of the United States and provinces of Canada, by their codes and abbreviations."""

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
