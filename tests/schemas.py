"""The schemas of docs/schemas, and what they say of a file."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
FORMATS = {"dushapley.valuation/1": "valuation", "dushapley.settlement/2": "settlement"}


@cache
def validator(name: str) -> Any:
    """What checks files of one kind; settlements refer to the schema of valuations."""
    jsonschema = __import__("jsonschema")
    referencing = __import__("referencing")
    schemas = {path.stem: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    known = [(each["$id"], referencing.Resource.from_contents(each)) for each in schemas.values()]
    registry = referencing.Registry().with_resources(known)
    return jsonschema.Draft202012Validator(schemas[name], registry=registry)


def refuse_misfits(path: Path, content: str | bytes) -> None:
    """Fail where a file of a known kind does not fit its schema; others may be anything."""
    if path.suffix == ".toml":
        validator("job").validate(tomllib.loads(str(content)))
    if path.suffix == ".json" and isinstance(content, str):
        data = json.loads(content)
        if isinstance(data, dict) and data.get("format") in FORMATS:
            validator(FORMATS[data["format"]]).validate(data)
