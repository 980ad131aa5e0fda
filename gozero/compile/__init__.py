"""What is there for a compiler only, each trick beside its plain form; README.md has the table."""
