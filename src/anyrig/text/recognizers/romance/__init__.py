"""Spanish and French: a decimal comma, numbers that agree with nouns, tables of abbreviations."""
