"""One frozen, validated object with the settings of this app."""
