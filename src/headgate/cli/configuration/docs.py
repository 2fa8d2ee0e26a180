"""Writes docs/configuration.md from the schema (``types.py``), the table of flags and the options of ``headgate run``.

``headgate config docs`` prints it; a test compares the committed page with it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, Final

import click
from msgspec import inspect

from headgate.cli.configuration.flags import FLAGS, RELOADED
from headgate.cli.configuration.types import SchemaField, schema_fields
from headgate.kube.serializer.struct_decoder import plain_type

_WIDTH: Final = 120
_INTRODUCTION: Final = """\
# The configuration file

<!-- written by `headgate config docs`; the source is src/headgate/cli/configuration -->

`headgate run --config headgate.yaml` takes all its options from one file. Every option has a field. An option on the
command line overrides the field. A field or an option that is not set has the default of this page.

```yaml
apiVersion: headgate.dev/v1alpha1
kind: Configuration
components: [scheduler, webhooks, quota, jobs]
webhooks:
  service: headgate-system/headgate
queues:
  gateAllPods: true
jobs:
  waitForPodsReady:
    timeout: 10m
metrics:
  listen: 0.0.0.0:10259
logging:
  level: info
  format: json
```

`headgate config check headgate.yaml` reports all errors of a file at once, each with its line and the path of the
field. An unknown field, a repeated field and a second YAML document are errors. The exit code is 1 if the file has an
error.

## Which files `--config` takes

`--config` recognises the kind of a file. It may be given once for each kind.

| file | what it sets |
|---|---|
| `headgate.dev/v1alpha1`, kind `Configuration` | every option of `headgate run`; this page |
| `kubescheduler.config.k8s.io/v1`, kind `KubeSchedulerConfiguration` | profiles and plugins of the scheduler |
| `volcano-scheduler.conf`, alone or in its ConfigMap | actions, tiers and plugins of queues |
| `config.kueue.x-k8s.io/v1beta1` or `v1beta2`, kind `Configuration` | the same as `--kueue-config` \
([kueue.md](kueue.md)) |

A scheduler configuration of `--config` replaces `scheduler.configuration` and `scheduler.configurationFile`. The order
of precedence is: the command line, this file, Kueue's file, the default.

## Changes while it runs

The file is read again every five seconds. A change of a field that is marked *reloaded* takes effect at once. For other
fields one log line at level `warning` names the fields that need a restart. If the changed file has an error, a log
line at level `error` names it, and the former values stay. Flags on the command line still override the file. Files
that it names are compared, too. Kueue's file, and a scheduler configuration of `--config`, are read once.

## Fields
"""


def configuration_page(command: click.Command) -> str:
    """The page as Markdown. ``command``: ``headgate run``, whose options have the defaults."""
    options = {flag: each for each in command.params for flag in each.opts}
    flags = {each.path: each.flag for each in FLAGS}
    fields = [_field_text(field, flags.get(field.path, ""), options) for field in schema_fields()]
    return "\n".join((_INTRODUCTION, *fields)).rstrip() + "\n"


def _field_text(field: SchemaField, flag: str, options: Mapping[str, click.Parameter]) -> str:
    is_section = isinstance(field.type, inspect.StructType)
    if is_section and "." not in field.path:
        return f"### {field.path}\n\n{_wrapped(field.description, '')}\n"
    parts = [] if is_section else [_type_text(field.type)]
    if flag:
        parts.append(f"flag `{flag}`")
        default = _default_text(options[flag])
        parts += [f"default `{default}`"] if default else []
    if field.path in RELOADED:
        parts.append("reloaded")
    heading = f"- **`{field.path}`**" + (f" ({', '.join(parts)})" if parts else "")
    return _wrapped(f"{heading}: {field.description}", "  ") + "\n"


def _wrapped(text: str, indent: str) -> str:
    return "\n".join(
        textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    )


def _type_text(type_: inspect.Type) -> str:
    plain, _ = plain_type(type_)
    match plain:
        case inspect.LiteralType(values):
            return " or ".join(f"`{each}`" for each in values)
        case inspect.VarTupleType(item) | inspect.ListType(item):
            return f"list of {_type_text(item)}s"
        case inspect.DictType(value_type=inspect.AnyType()):
            return "object"
        case inspect.DictType(value_type=value):
            return f"map of {_type_text(value)}"
        case inspect.BoolType():
            return "boolean"
        case inspect.IntType():
            return "integer"
        case _:
            return "string"


def _default_text(option: click.Parameter) -> str:
    default: Any = option.default
    match default:
        case bool():
            return str(default).lower()
        case int() | str():
            return str(default)
        case _:
            return ""
