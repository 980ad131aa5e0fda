"""What a compiler must be told, each trick beside its plain form: README.md has the table."""
