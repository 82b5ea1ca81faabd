"""A small project of a user's own, from templates: `edgestill new`. Nothing else imports this room."""
