from services.addons.probe import ADDON
from shared.sdk.runtime import run_addon

run_addon(ADDON)
