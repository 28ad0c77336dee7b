"""The studio's page in headless Chromium, and its server as a process of the command line, for tests and proofs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser import set_screen, start_browser
from tests.forked import Forked

PATIENCE = 400  # seconds; a busy machine loads the model for long
MICROPHONE = ("--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream")


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

    def __init__(self, address: str, microphone: Path | None = None, driver: Any = None) -> None:
        arguments = [*MICROPHONE, "--window-size=1400,1000"]
        if microphone is not None:  # a recording that the microphone hears, again and again
            arguments.append(f"--use-file-for-fake-audio-capture={microphone}")
        self.driver = driver or start_browser(*arguments)
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
        return WebDriverWait(self.driver, PATIENCE, 0.05).until(lambda _: true(), what)

    def saved(self) -> None:
        """Wait until the server has acknowledged every edit."""
        script = "const done = arguments[0]; import('/page/session.js').then((found) => done(!found.isSaving()));"
        self.wait("saving", lambda: self.driver.execute_async_script(script))

    def screenshot(self, path: Path, width: int, dark: bool) -> None:
        """Save a picture of the whole page at a width in pixels."""
        set_screen(self.driver, width, dark)
        time.sleep(0.8)
        height = self.driver.execute_script("return document.documentElement.scrollHeight")
        size = {"width": width, "height": max(height, 600), "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        time.sleep(0.8)
        self.driver.save_screenshot(str(path))
