"""Every other database that SQLAlchemy reaches: only what SQLAlchemy itself knows of it is used."""
