from importlib.metadata import version

import transher
from transher.versions import version_of


def test_the_version_is_the_installed_one_and_a_package_that_is_not_has_none() -> None:
    assert version_of("torch") == version("torch")
    assert version_of("not-a-package") == "unknown"
    assert transher.__version__ == version_of("transher")
