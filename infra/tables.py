"""The state: one DynamoDB table an owner."""

from collections.abc import Mapping

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from reservoir import names
from reservoir.names import output_name


class StateTables(Construct):
    """The eight tables with the indexes that ``reservoir.names`` describes: made here, or adopted by name.

    Parameters
    ----------
    adopted
        Names of tables that exist already, restored ones or those of an earlier stack; they stay nobody's resource.
    retain
        Tables survive the stack, unless its creation fails.
    protect
        They cannot be deleted by hand either.
    with_older_indexes
        Indexes that the release before reads stay: its functions may run until this update is over.
    """

    def __init__(
        self,
        scope: Construct,
        construct: str,
        *,
        adopted: Mapping[names.Table, str],
        retain: bool,
        protect: bool,
        with_older_indexes: bool,
    ) -> None:
        super().__init__(scope, construct)
        self.with_older_indexes = with_older_indexes
        self.by_name: dict[names.Table, dynamodb.ITable] = {
            table: self._adopted(table, adopted[table])
            if table in adopted
            else self._table(table, retain=retain, protect=protect)
            for table in names.Table
        }

    def _adopted(self, table: names.Table, name: str) -> dynamodb.ITable:
        return dynamodb.Table.from_table_attributes(
            self,
            output_name(table.name),
            table_name=name,
            global_indexes=list(self._indexes(table)),
        )

    def _indexes(self, table: names.Table) -> tuple[str, ...]:
        return names.indexes(table, with_older=self.with_older_indexes)

    def _table(self, table: names.Table, *, retain: bool, protect: bool) -> dynamodb.Table:
        result = dynamodb.Table(
            self,
            output_name(table.name),
            partition_key=_string(names.KEY),
            sort_key=_string(names.SORT_KEY)
            if names.SORT_KEY in names.key_attributes(table)
            else None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute=names.TTL_ATTRIBUTE,
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=protect,
            removal_policy=kept(retain=retain),
        )
        for index in self._indexes(table):
            partition_key, sort_key = names.INDEX_KEYS[index]
            result.add_global_secondary_index(
                index_name=index,
                partition_key=_string(partition_key),
                sort_key=_string(sort_key),
                projection_type=dynamodb.ProjectionType[names.INDEX_PROJECTIONS[index]],
                non_key_attributes=list(names.INDEX_INCLUDES[index])
                if index in names.INDEX_INCLUDES
                else None,
            )
        return result


def kept(*, retain: bool) -> RemovalPolicy:
    """Return the policy of what survives the stack, but not a creation that failed: nothing was ever in it then."""
    return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if retain else RemovalPolicy.DESTROY


def _string(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)
