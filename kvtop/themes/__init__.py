"""Themes, one TOML file each: ``[colors] [variables] [owners]``. Read by ``kvtop.app.theme_files``; no code here."""
