from services.addons.telegram import ADDON
from shared.sdk.runtime import run_addon

run_addon(ADDON)
