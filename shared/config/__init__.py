"""Every setting: name, default, unit, meaning; one typed section a feature.

- `declare`: how a section and its settings are declared.
- `sections`: the sections; components receive the one they need, never the environment.
- `load`: reads a TOML file and the environment once, and reports every problem at once.
"""

from shared.config.load import ConfigProblems, load
from shared.config.sections import Settings

__all__ = ["ConfigProblems", "Settings", "load"]
