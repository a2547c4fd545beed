"""Functions in a VPC of the account's, where a deployment asks for it."""

from collections.abc import Iterable
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.iam.acknowledgements import acknowledge_wildcards
from infra.iam.grants import Grant
from reservoir.deployment.settings import FunctionNetwork

# https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc.html#configuration-vpc-permissions
_CHANGING: Final = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:UnassignPrivateIpAddresses",
)
_READING: Final = ("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets")


class FunctionsInVpc(Construct):
    """Puts all functions into subnets, and lets Lambda make their interfaces with their roles; their code may not."""

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        functions: Iterable[lambda_.Function],
        network: FunctionNetwork,
    ) -> None:
        super().__init__(scope, construct)
        every = list(functions)
        grants = _grants(Stack.of(self))
        policy = iam.ManagedPolicy(
            self,
            "Interfaces",
            description="What Lambda does with the roles of functions to attach them to their subnets",
            statements=[*(grant.statement() for grant in grants), _not_by_code(self)],
            roles=[function.role for function in every if function.role is not None],
        )
        acknowledge_wildcards(policy, grants)
        for function in every:
            raw = function.node.default_child
            if isinstance(raw, lambda_.CfnFunction):
                raw.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
                    subnet_ids=network.subnets, security_group_ids=network.security_groups
                )
                # Lambda asks whether the role may do this before it makes the function.
                raw.node.add_dependency(policy)


def _grants(stack: Stack) -> list[Grant]:
    return [
        Grant(
            "AttachToSubnets",
            "Lambda makes and removes the interfaces of functions; a subnet may be another account's, which shares it.",
            list(_CHANGING),
            [f"arn:{stack.partition}:ec2:{stack.region}:*:*/*"],
        ),
        Grant(
            "LookAtInterfaces",
            "Lambda looks at the interfaces of functions; EC2 has no narrower resource for Describe calls.",
            list(_READING),
            ["*"],
        ),
    ]


def _not_by_code(scope: Construct) -> iam.PolicyStatement:
    """Refuse the same to the functions' own code: only calls of code say which function makes them."""
    return iam.PolicyStatement(
        sid="NotByCode",
        effect=iam.Effect.DENY,
        actions=[*_CHANGING, "ec2:DescribeNetworkInterfaces"],
        resources=["*"],
        conditions={
            "ArnLike": {
                "lambda:SourceFunctionArn": Stack.of(scope).format_arn(
                    service="lambda", resource="function:*"
                )
            }
        },
    )
