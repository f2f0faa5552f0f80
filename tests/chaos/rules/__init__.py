"""The rules of the checker, by what they are about. Each is a function from the evidence to its violations."""
