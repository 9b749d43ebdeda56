"""Pure rules: standard library only, no clock, no IO."""
