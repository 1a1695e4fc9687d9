"""The panels of the screen, one file each. All draw their own lines (Textual's Line API) and keep nothing but those."""
