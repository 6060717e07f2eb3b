"""What a Space is given, and how: a list of what may go, never what happens to lie around."""

import re
import shutil
from pathlib import Path

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HfHubHTTPError

from spork_demo.deploy import front_matter
from spork_demo.deploy.check import MCP, ZERO_GPU
from spork_demo.deploy.hardware import Machine
from spork_demo.spacefile import Spacefile

TOP = ("app.py", "LICENSE", "pyproject.toml")
FOLDERS = ("spork_demo", "assets")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
SPACE_ID = re.compile(r"[\w.-]+/[\w.-]+")


class UploadError(Exception):
    """The Space could not be made or filled. The message is one sentence."""


def stage(root: Path, folder: Path, spacefile: Spacefile, machine: Machine, profile: str) -> None:
    """Write into `folder` what is uploaded for `machine`."""
    for name in TOP:
        shutil.copyfile(root / name, folder / name)
    for name in FOLDERS:
        shutil.copytree(root / name, folder / name, ignore=LEFT_OUT)
    readme = (root / "README.md").read_text(encoding="utf-8")
    readme = front_matter.for_machine(readme, spacefile, machine)
    (folder / "README.md").write_text(readme, encoding="utf-8")
    wanted = [ZERO_GPU if machine.lent else root / "requirements.txt"]
    wanted += [MCP] if spacefile.mcp else []
    texts = [path.read_text(encoding="utf-8") for path in wanted]
    (folder / "requirements.txt").write_text("".join(texts), encoding="utf-8")
    manifest = (root / "Spacefile").read_text(encoding="utf-8")
    manifest = re.sub(r'(?m)^profile = "[^"]*"', f'profile = "{profile}"', manifest, count=1)
    (folder / "Spacefile").write_text(manifest, encoding="utf-8")


def upload(space_id: str, folder: Path, machine: Machine) -> str:
    """Make the Space where it is missing, fill it in one commit, return its address.

    Hardware that costs by the hour is never asked for here.
    """
    if not SPACE_ID.fullmatch(space_id):
        raise UploadError("A Space is named OWNER/NAME.")
    if not get_token():
        raise UploadError("No token of the hub: set HF_TOKEN or run `hf auth login`.")
    api = HfApi()
    hardware = {"space_hardware": machine.hub} if machine.free else {}
    try:
        address = api.create_repo(
            space_id, repo_type="space", space_sdk="gradio", exist_ok=True, **hardware
        )
        api.upload_folder(
            repo_id=space_id,
            repo_type="space",
            folder_path=folder,
            commit_message="Deploy spork_demo",
        )
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no answer"
        raise UploadError(f"The hub refused the upload ({status}).") from error
    except OSError as error:
        raise UploadError("The hub could not be reached.") from error
    return str(address)
