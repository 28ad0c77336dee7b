"""The studio's page in headless Chromium, and its server as a process of the command line, for tests and proofs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from tests.forked import Forked

PATIENCE = 400  # seconds; a busy machine loads the model for long
ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
)


def missing() -> str:
    """Return why there is no browser to test with, or ``""``."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)} (Debian: chromium, chromium-driver)" if absent else ""


class Server:
    """``speechctc studio`` in a process."""

    def __init__(self, folder: Path, *options: str) -> None:
        log = folder.parent / f"studio-{len(list(folder.parent.iterdir()))}.log"
        errors = folder.parent / "studio.err"
        arguments = ("studio", folder, "--no-browser", *options)
        self.process = Forked("speechctc", *arguments, cwd=Path.cwd(), log=log, errors=errors)
        self.process.wait_until_it_says("http")
        self.address = log.read_text(encoding="utf-8").splitlines()[1].strip()

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """End the process as Ctrl-C does; return its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(600)

    def close(self) -> None:
        """End the process if it still runs."""
        if self.process.poll() is None:
            self.kill()


class Page:
    """A browser with the studio's page."""

    def __init__(self, address: str, microphone: Path | None = None) -> None:
        options = webdriver.ChromeOptions()
        for argument in (*ARGUMENTS, "--window-size=1400,1000"):
            options.add_argument(argument)
        if microphone is not None:  # a recording that the microphone hears, again and again
            options.add_argument(f"--use-file-for-fake-audio-capture={microphone}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        options.binary_location = str(shutil.which("chromium"))
        self.driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        self.driver.get(address)

    def close(self) -> None:
        """Close the browser."""
        self.driver.quit()

    def session(self) -> dict[str, Any]:
        """Return what the page knows of the recording that is open."""
        script = "const done = arguments[0]; import('/page/session.js').then((found) => done(found.session));"
        return dict(self.driver.execute_async_script(script))

    def phones(self) -> list[tuple[float, float, str]]:
        """Return start, end and label of the phones that the page shows."""
        return [(phone["start"], phone["end"], phone["label"]) for phone in self.session()["phones"]]

    def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        chain = ActionChains(self.driver)
        for key in keys:
            chain.send_keys(key)
        chain.perform()

    def text(self, selector: str) -> str:
        """Return the text of an element, seen or not."""
        return str(self.driver.execute_script("return document.querySelector(arguments[0]).textContent", selector))

    def click(self, selector: str) -> None:
        """Click on an element."""
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def wait(self, what: str, true: Callable[[], Any]) -> Any:
        """Wait until something is true; return it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := true():
                return found
            time.sleep(0.05)
        raise AssertionError(f"{what}: {self.text('main')[:500]} {self.errors()}")

    def saved(self) -> None:
        """Wait until the server has acknowledged every edit."""
        script = "const done = arguments[0]; import('/page/session.js').then((found) => done(!found.isSaving()));"
        self.wait("saving", lambda: self.driver.execute_async_script(script))

    def errors(self) -> list[str]:
        """Return what the console has of warnings and errors."""
        log = self.driver.get_log("browser")
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]

    def dark(self, on: bool) -> None:
        """Prefer dark colours, or light ones."""
        features = [{"name": "prefers-color-scheme", "value": "dark" if on else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(self, path: Path, width: int, dark: bool) -> None:
        """Save a picture of the whole page at a width in pixels."""
        self.dark(dark)
        metrics = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        time.sleep(0.8)
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics | {"height": max(height, 600)})
        time.sleep(0.8)
        self.driver.save_screenshot(str(path))
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def accessibility(self) -> list[str]:
        """Return the violations that axe-core calls serious or critical; the file is named by AXE_CORE."""
        source = Path(os.environ["AXE_CORE"]).read_text(encoding="utf-8")
        self.driver.execute_script(source)
        script = "const done = arguments[0]; axe.run(document).then((found) => done(JSON.stringify(found.violations)));"
        found = json.loads(self.driver.execute_async_script(script))
        return [
            f"{each['id']}: {node['html'][:160]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]
