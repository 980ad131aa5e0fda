"""Go: boards, rules, scoring, symmetries. Imports only `compile` and `struct` of gozero."""
