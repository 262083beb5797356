"""What has a form that can be checked: dates, money, numbers, contacts, identifiers."""
