"""Parts of the HTML pages: what stands in them, as plain data for the templates."""
