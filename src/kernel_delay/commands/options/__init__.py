"""Groups of options, each defined once, and what is made of them; cli.py has every command's."""
