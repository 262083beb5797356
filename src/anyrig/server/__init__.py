"""Every ability over HTTP, and a page: FastAPI in front, worker processes behind.

from anyrig.server.app import create_app
"""
