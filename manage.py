#!/usr/bin/env python
"""Django's command line for Evenflow."""

import os
import sys


def main() -> None:
    """Run one management command; an old Python gets one clear sentence instead of a SyntaxError."""
    if sys.version_info < (3, 11):
        sys.exit(f"Evenflow needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    from controlplane import env

    env.take_data_directory(sys.argv)
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
