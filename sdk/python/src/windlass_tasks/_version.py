"""The version, which is that of the crates."""

VERSION = "0.1.0"
