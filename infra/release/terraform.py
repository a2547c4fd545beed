"""A Terraform module around the released template: a variable for each parameter, an output for each output."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HEAD: Final = """terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}
"""
_STACK: Final = """
variable "stack_name" {
  type        = string
  description = "The stack's name, of at most 40 characters."
  default     = "Reservoir"
}

resource "aws_s3_object" "assets" {
  for_each = fileset("${path.module}/../assets", "*.zip")
  bucket   = var.asset_bucket
  key      = "${var.asset_prefix}${each.value}"
  source   = "${path.module}/../assets/${each.value}"
}

locals {
  template = "${path.module}/../reservoir.template.json"
}

data "aws_s3_bucket" "assets" {
  bucket = var.asset_bucket
}

# A changed template has another key: CloudFormation looks at the address alone.
resource "aws_s3_object" "template" {
  bucket = var.asset_bucket
  key    = "${var.asset_prefix}reservoir.${filemd5(local.template)}.template.json"
  source = local.template
}

# Tables, the demand queue, snapshots and logs outlive the stack: their DeletionPolicy says so.
resource "aws_cloudformation_stack" "reservoir" {
  name         = var.stack_name
  template_url = "https://${data.aws_s3_bucket.assets.bucket_regional_domain_name}/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"]
  depends_on   = [aws_s3_object.assets]

  parameters = {
"""


def module(template: Mapping[str, Any]) -> str:
    """Return the module's only file."""
    parameters = template["Parameters"]
    width = max(map(len, parameters))
    given = "".join(f"    {name:<{width}} = var.{snake(name)}\n" for name in parameters)
    variables = "\n".join(
        _variable(name, parameter) for name, parameter in parameters.items()
    )
    return f"{_HEAD}\n{variables}{_STACK}{given}  }}\n}}\n{''.join(_outputs(template['Outputs']))}"


def snake(name: str) -> str:
    """Return a name of CloudFormation's as Terraform writes names."""
    return _WORDS.sub("_", name).lower()


def _variable(name: str, parameter: Mapping[str, Any]) -> str:
    lines = [
        "  type        = string",
        f"  description = {json.dumps(parameter['Description'])}",
    ]
    if "Default" in parameter:
        lines.append(f"  default     = {json.dumps(parameter['Default'])}")
    body = "\n".join(lines)
    return f'variable "{snake(name)}" {{\n{body}\n}}\n'


def _outputs(outputs: Mapping[str, Any]) -> Iterator[str]:
    for name, output in outputs.items():
        value = f'aws_cloudformation_stack.reservoir.outputs["{name}"]'
        if "Condition" in output:  # it may not be there
            value = f'lookup(aws_cloudformation_stack.reservoir.outputs, "{name}", "")'
        yield f'\noutput "{snake(name)}" {{\n  value = {value}\n}}\n'
