"""What is reported, made a text, JSON or a picture: a module for each form; commands write it."""
