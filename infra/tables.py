"""The state: one DynamoDB table an owner."""

from typing import Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from shared import names
from shared.names import output_name

INDEX_KEYS: Final = {
    names.LISTING_INDEX: names.LISTING_KEY,
    names.INSTANCE_INDEX: names.INSTANCE_KEY,
    names.LEASE_INDEX: names.LEASE_KEY,
}


def indexes(table: names.Table) -> tuple[str, ...]:
    """Return the names of a table's indexes."""
    if table is names.Table.NODE_CLAIMS:
        return (names.LISTING_INDEX, names.INSTANCE_INDEX, names.LEASE_INDEX)
    return (names.LISTING_INDEX,)


class StateTables(Construct):
    """The six tables with the indexes that ``shared.names`` describes."""

    def __init__(self, scope: Construct, construct: str, *, retain: bool) -> None:
        super().__init__(scope, construct)
        self.by_name = {table: self._table(table, retain=retain) for table in names.Table}

    def _table(self, table: names.Table, *, retain: bool) -> dynamodb.Table:
        result = dynamodb.Table(
            self,
            output_name(table.name),
            partition_key=_string(names.KEY),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=names.TTL_ATTRIBUTE,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=retain,
            removal_policy=RemovalPolicy.RETAIN if retain else RemovalPolicy.DESTROY,
        )
        for index in indexes(table):
            result.add_global_secondary_index(
                index_name=index,
                partition_key=_string(INDEX_KEYS[index]),
                sort_key=_string(names.KEY),
                projection_type=(
                    dynamodb.ProjectionType.ALL if index == names.LISTING_INDEX else dynamodb.ProjectionType.KEYS_ONLY
                ),
            )
        return result


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
