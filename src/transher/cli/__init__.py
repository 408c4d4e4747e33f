"""The command line: options, display, and one thin function per command."""
