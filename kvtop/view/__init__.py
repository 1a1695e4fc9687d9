"""What is shown, without a screen: pool view, series, figures and words. Python and NumPy; no Textual, no torch."""
