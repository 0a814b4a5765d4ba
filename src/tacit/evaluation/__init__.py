"""How good is it: worlds, studies and figures; the only room that holds both sides."""
