"""The console's pages: views, forms and template tags. POST → service → redirect."""
