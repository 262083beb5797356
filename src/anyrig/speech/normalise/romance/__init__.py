"""What Spanish and French share: figures with a decimal comma, markup, addresses, short forms."""
