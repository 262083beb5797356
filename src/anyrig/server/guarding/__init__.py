"""What the guard asks of whoever calls: a file for each question. `server.guard` asks them."""
