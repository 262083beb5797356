"""Many machines as one: workers join a broker, and whoever has work spreads it over them."""
