"""Browsers for tests of pages, headless Chromium above all; they skip, with the reason, where one is absent."""

from __future__ import annotations

import atexit
import gc
import glob
import importlib
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = (("chromium", "chromium-browser", "google-chrome"), ("chromedriver", "chromium.chromedriver"))
OTHERS = {  # by selenium's name: the program, its driver
    "Firefox": ("firefox", "firefox-esr", "geckodriver"),
    "WebKitGTK": (*glob.glob("/usr/lib/*/webkit2gtk-4.*/MiniBrowser"), "WebKitWebDriver"),
}
FIREFOX = {"browser.download.folderList": 2, "media.autoplay.default": 0, "network.proxy.type": 1,
           "network.proxy.socks": "127.0.0.1", "network.proxy.socks_port": 9}  # no network # fmt: skip
WAIT = 30  # seconds at most; a test ends as soon as it can


def start_browser(*more: str) -> Any:
    """Start Chromium, which may get more arguments; return its driver."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium, of the extra dev, is not installed")
    from selenium.webdriver.chrome.service import Service

    program, driver = (next(filter(None, map(shutil.which, names)), None) for names in PROGRAMS)
    if not program or not driver:
        pytest.skip("no Chromium with its driver here (Debian's packages chromium and chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    arguments = ["--headless=new", "--disable-gpu", "--autoplay-policy=no-user-gesture-required"]
    for argument in [*arguments, *more, *(["--no-sandbox"] if os.geteuid() == 0 else [])]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    started.set_script_timeout(120)
    return started


_shared: list[Any] = []  # the one that runs without more arguments


@contextmanager
def browser(*more: str) -> Iterator[Any]:
    """Give a driver of Chromium at a new tab; one with more arguments is of its own, the other is started once."""
    if more:
        driver = start_browser(*more)
        try:
            yield driver
        finally:
            driver.quit()
        return
    if not _shared:
        _shared.append(start_browser())
        atexit.register(quit_browser)
    (driver,) = _shared
    first = driver.current_window_handle
    try:
        driver.switch_to.new_window("tab")
        yield driver
    finally:
        _leave(driver, first)


def _leave(driver: Any, first: str) -> None:
    """Go from the tab of a test, with its network and its messages, to the first tab; or else end the browser."""
    from selenium.common.exceptions import WebDriverException

    try:
        driver.delete_network_conditions()
        driver.close()
        driver.switch_to.window(first)
        console(driver)
    except WebDriverException:
        quit_browser()


def quit_browser() -> None:
    """End the browser that tests share, if it runs."""
    while _shared:
        _shared.pop().quit()


@contextmanager
def other_browser(kind: str, downloads: Path) -> Iterator[Any]:
    """Give a driver of Firefox or of WebKitGTK, whose engine is Safari's; what the page saves goes into a folder."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium, of the extra dev, is not installed")
    program, driver = next(filter(None, map(shutil.which, OTHERS[kind][:-1])), None), shutil.which(OTHERS[kind][-1])
    if not program or (kind == "WebKitGTK" and not (driver and os.environ.get("DISPLAY"))):
        pytest.skip(f"no {kind} with {OTHERS[kind][-1]} and a screen here")
    if not driver:
        with _marionette(program, downloads) as firefox:
            yield firefox
        return
    options = getattr(webdriver, f"{kind}Options")()
    options.binary_location = program
    options.add_argument("-headless" if kind == "Firefox" else "--automation")
    for key, value in (FIREFOX | {"browser.download.dir": str(downloads)}).items() if kind == "Firefox" else ():
        options.set_preference(key, value)
    (downloads / "user-dirs.dirs").write_text(f'XDG_DOWNLOAD_DIR="{downloads}"\n', encoding="utf-8")
    service = importlib.import_module(f"selenium.webdriver.{kind.lower()}.service").Service
    environment = {**os.environ, "XDG_CONFIG_HOME": str(downloads)}
    opened = getattr(webdriver, kind)(options=options, service=service(driver, env=environment))
    try:
        yield opened
    finally:
        opened.quit()


@contextmanager
def _marionette(program: str, downloads: Path) -> Iterator[Firefox]:
    """Give Firefox by its own protocol, where there is no geckodriver."""
    reason = "no geckodriver, nor the package marionette-driver of PyPI"
    pytest.importorskip("marionette_driver", reason=reason)
    Marionette = importlib.import_module("marionette_driver.marionette").Marionette
    preferences = FIREFOX | {"browser.download.dir": str(downloads)}
    log = str(downloads / "firefox.log")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves sockets open
        opened = Marionette(app="fxdesktop", bin=program, prefs=preferences, headless=True, port=0, gecko_log=log)
        opened.start_session()
        opened.timeout.script = WAIT
        try:
            yield Firefox(opened)
        finally:
            opened.quit(in_app=False)
            opened.cleanup()
            gc.collect()


class Firefox:
    """Firefox with those methods of selenium's drivers that tests of all browsers use."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.session_id = opened.session_id  # which selenium's waits name
        self.get, self.find_element, self.find_elements = opened.navigate, opened.find_element, opened.find_elements

    def execute_script(self, script: str, *arguments: Any) -> Any:
        """Run a script in the page, as its own scripts run."""
        return self._opened.execute_script(script, script_args=arguments, sandbox=None)


def console(driver: Any) -> list[str]:
    """Return what the page wrote to the console: errors of scripts, of the policy, of what could not be loaded."""
    return [entry["message"] for entry in driver.get_log("browser")]


def set_screen(driver: Any, width: int, dark: bool) -> None:
    """Set the width of the window, in pixels of CSS, and the colours that the user prefers."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def wait_until(driver: Any, condition: str, *arguments: Any) -> None:
    """Wait until a condition in JavaScript holds."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, WAIT, 0.05).until(lambda it: it.execute_script(f"return {condition}", *arguments), condition)
