"""The Terraform module, looked at by terraform, checkov, and the wheel that the kept schema is from. `make test-terraform` fetches the latter two.

Nothing is skipped because it is missing: a missing tool fails. Only terraform itself, which no package registry has, may be left out, and only
by saying so: COMPACTOR_TERRAFORM=none.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.app import mwaa as app_mwaa
from tests.terraform import provider
from tests.terraform.module import EXAMPLES, MODULE, ROOT, used_types
from tests.terraform.provider_schema import NEWEST, OLDEST, Version, kept_text, read_package

pytestmark = pytest.mark.terraform

TOOLS = ROOT / "build" / "terraform"
"""The environment that `make test-terraform` makes, with checkov and the wheel."""

SKIPPED = MODULE / ".checkov.yaml"


@pytest.fixture(scope="module", params=[NEWEST], ids=lambda version: version.number)
def terraform(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A copy of the module to run terraform in, and its environment: a stand-in for the provider, no user settings, no network."""
    found = os.environ.get("COMPACTOR_TERRAFORM") or shutil.which("terraform")
    if found == "none":
        pytest.skip("COMPACTOR_TERRAFORM=none")
    if not found:
        pytest.fail("terraform 1.9 or newer is needed: install it, or leave these tests out with COMPACTOR_TERRAFORM=none")
    folder = tmp_path_factory.mktemp("terraform")
    shutil.copytree(MODULE, folder / "module", ignore=shutil.ignore_patterns(".terraform*"))
    (folder / "terraformrc").write_text("disable_checkpoint = true\n", encoding="utf-8")
    own = {"TF_CLI_CONFIG_FILE": str(folder / "terraformrc"), "TF_IN_AUTOMATION": "1", "COMPACTOR_TERRAFORM": found}
    with provider.running(request.param.blocks(), folder / "provider.sock") as attached:
        yield folder / "module", {**os.environ, **own, **attached}


def run(where: Path, environment: dict[str, str], *arguments: str) -> str:
    """What terraform says; it must end well."""
    command = [environment["COMPACTOR_TERRAFORM"], *arguments, "-no-color"]
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_terraform_would_lay_nothing_out_differently(terraform: tuple[Path, dict[str, str]]) -> None:
    """`terraform fmt`."""
    folder, environment = terraform
    assert run(folder, environment, "fmt", "-check", "-recursive") == ""


@pytest.mark.parametrize("terraform", [NEWEST, OLDEST], indirect=True, ids=lambda version: version.number)
@pytest.mark.parametrize("part", [".", *(f"examples/{example.name}" for example in EXAMPLES)])
def test_terraform_finds_the_configuration_valid(terraform: tuple[Path, dict[str, str]], part: str) -> None:
    """`terraform validate`, against the schemas of the newest provider and of the oldest one that versions.tf accepts."""
    folder, environment = terraform
    if part == "examples/complete":
        # the first line of the example's instructions
        app_mwaa.upload(str(folder / part / "mwaa"), folder / "compactor.yaml")
    run(folder / part, environment, "init", "-backend=false")
    assert "The configuration is valid" in run(folder / part, environment, "validate")


def test_terraform_runs_the_modules_own_tests(terraform: tuple[Path, dict[str, str]]) -> None:
    """`terraform test`: every run of every file passes."""
    folder, environment = terraform
    run(folder, environment, "init", "-backend=false")
    said = run(folder, environment, "test")
    files = list((MODULE / "tests").glob("*.tftest.hcl"))
    runs = sum(len(re.findall(r"^run \"", path.read_text(encoding="utf-8"), re.MULTILINE)) for path in files)
    assert f"Success! {runs} passed, 0 failed." in said


def test_a_mistake_does_not_pass(terraform: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    """The stand-in's schema is strict, and a failing assertion fails."""
    folder, environment = terraform
    shutil.copytree(folder, tmp_path / "module", ignore=shutil.ignore_patterns(".terraform*"))
    run(tmp_path / "module", environment, "init", "-backend=false")
    main = tmp_path / "module" / "main.tf"
    main.write_text(main.read_text(encoding="utf-8").replace("release_label =", "release_labl ="), encoding="utf-8")
    with pytest.raises(AssertionError, match='An argument named "release_labl" is not expected here'):
        run(tmp_path / "module", environment, "validate")
    shutil.copy(folder / "main.tf", main)
    test = tmp_path / "module" / "tests" / "parts.tftest.hcl"
    test.write_text(test.read_text(encoding="utf-8").replace("s3://our-lake/raw/cdc", "s3://other/raw/cdc"), encoding="utf-8")
    with pytest.raises(AssertionError, match="Jobs get their rights on it"):
        run(tmp_path / "module", environment, "test", "-filter=tests/parts.tftest.hcl")


@pytest.mark.parametrize("version", [NEWEST, OLDEST], ids=lambda version: version.number)
def test_the_kept_schema_is_the_wheels(version: Version) -> None:
    """Line by line, for every type in use."""
    found = version.packages(TOOLS)
    if len(found) != 1:
        pytest.fail(f"expected one package of {version.wheel} in {TOOLS.relative_to(ROOT)}, found {len(found)}: run make test-terraform")
    assert version.kept.read_text(encoding="utf-8") == kept_text(read_package(version, found[0], used_types()))


def test_checkov_finds_only_what_was_reviewed(tmp_path: Path) -> None:
    """What it finds is what terraform/.checkov.yaml leaves out, with a reason for each: nothing more, and no reason that is out of date."""
    python = TOOLS / "bin" / "python"
    if not (TOOLS / "bin" / "checkov").exists():
        pytest.fail(f"expected checkov in {TOOLS.relative_to(ROOT)}: run make test-terraform")
    folder = tmp_path / "terraform"
    shutil.copytree(MODULE, folder, ignore=shutil.ignore_patterns(".terraform*", ".checkov.yaml", "tests", "examples"))
    command = [str(python), "-m", "checkov.main", "-d", str(folder), "--framework", "terraform", "--skip-download", "-o", "json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, 1), done.stderr
    said = json.loads(done.stdout)
    assert said["summary"]["parsing_errors"] == 0
    assert said["summary"]["passed"] > 70
    reviewed = re.findall(r"^  - (CKV\w+) # \S", SKIPPED.read_text(encoding="utf-8"), re.MULTILINE)
    found = {check["check_id"]: check["check_name"] for check in said["results"]["failed_checks"]}
    assert sorted(found) == sorted(reviewed), found
