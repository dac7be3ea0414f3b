"""A counting mode over a real device."""
