"""A counting mode over a real device: what its operators did, and not what they are predicted to do."""
