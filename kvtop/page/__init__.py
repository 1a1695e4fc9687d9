"""A recording as one self-contained web page: what is put into it (film), and the page around it (document)."""
