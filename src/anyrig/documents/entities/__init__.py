"""People, places, dates, money, numbers with check digits: what a text names, and where."""
