"""`glideslope nightly`: a site with a report of every run under a directory, kept up to date night by night."""
