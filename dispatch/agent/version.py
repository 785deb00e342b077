"""The version of the SDK and the command line, as servers and people are told."""

VERSION = "0.1.0"
