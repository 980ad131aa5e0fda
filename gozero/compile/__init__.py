"""Code that exists only for a compiler: each trick with its plain form; README.md lists them."""
