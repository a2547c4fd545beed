"""The operations that this emulation answers itself; everything else goes to moto."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lab.embedded.ec2 import resource_operations as resources
from lab.embedded.ec2 import topology_operations as topology
from lab.embedded.ec2.account.world import World
from lab.embedded.ec2.fleets import operations as fleets
from lab.embedded.ec2.fleets import request as fleet_request
from lab.embedded.ec2.instances import launch_templates as templates
from lab.embedded.ec2.instances import metadata, volume_defaults
from lab.embedded.ec2.instances import operations as instances
from lab.embedded.ec2.instances import type_operations as types
from lab.embedded.ec2.reservations import (
    block_offerings,
    interruptible_operations,
    quotes,
    redistribution,
)
from lab.embedded.ec2.reservations import block_operations as blocks
from lab.embedded.ec2.reservations import operations as reservations

Operation = Callable[[World, dict[str, Any]], dict[str, Any]]

OPERATIONS: Final[Mapping[str, Operation]] = {
    "CreateCapacityReservation": reservations.create_capacity_reservation,
    "ModifyCapacityReservation": reservations.modify_capacity_reservation,
    "CancelCapacityReservation": reservations.cancel_capacity_reservation,
    "DescribeCapacityReservations": reservations.describe_capacity_reservations,
    "MoveCapacityReservationInstances": redistribution.move_capacity_reservation_instances,
    "CreateCapacityReservationBySplitting": redistribution.create_capacity_reservation_by_splitting,
    "CreateCapacityReservationCancellationQuote": quotes.create_cancellation_quote,
    "DescribeCapacityReservationCancellationQuotes": quotes.describe_cancellation_quotes,
    "CreateCapacityReservationDateChangeQuote": quotes.create_date_change_quote,
    "DescribeCapacityReservationDateChangeQuotes": quotes.describe_date_change_quotes,
    "GetCapacityReservationUsage": reservations.get_capacity_reservation_usage,
    "CreateFleet": fleets.create_fleet,
    "DescribeFleets": fleets.describe_fleets,
    "DeleteFleets": fleets.delete_fleets,
    "RunInstances": instances.run_instances,
    "DescribeInstances": instances.describe_instances,
    "DescribeInstanceStatus": instances.describe_instance_status,
    "StopInstances": instances.stop_instances,
    "StartInstances": instances.start_instances,
    "TerminateInstances": instances.terminate_instances,
    "CreateLaunchTemplate": templates.create_launch_template,
    "CreateLaunchTemplateVersion": templates.create_launch_template_version,
    "ModifyLaunchTemplate": templates.modify_launch_template,
    "DeleteLaunchTemplate": templates.delete_launch_template,
    "DeleteLaunchTemplateVersions": templates.delete_launch_template_versions,
    "DescribeLaunchTemplates": templates.describe_launch_templates,
    "DescribeLaunchTemplateVersions": templates.describe_launch_template_versions,
    "DescribeCapacityBlockOfferings": block_offerings.describe_capacity_block_offerings,
    "PurchaseCapacityBlock": block_offerings.purchase_capacity_block,
    "DescribeCapacityBlockExtensionOfferings": block_offerings.describe_capacity_block_extension_offerings,
    "PurchaseCapacityBlockExtension": block_offerings.purchase_capacity_block_extension,
    "DescribeCapacityBlockExtensionHistory": block_offerings.describe_capacity_block_extension_history,
    "DescribeCapacityBlocks": blocks.describe_capacity_blocks,
    "DescribeCapacityBlockStatus": blocks.describe_capacity_block_status,
    "CreateInterruptibleCapacityReservationAllocation": interruptible_operations.create_allocation,
    "UpdateInterruptibleCapacityReservationAllocation": interruptible_operations.update_allocation,
    "DescribeCapacityReservationTopology": topology.describe_capacity_reservation_topology,
    "DescribeInstanceTopology": topology.describe_instance_topology,
    "ModifyInstanceMetadataDefaults": metadata.modify_instance_metadata_defaults,
    "GetInstanceMetadataDefaults": metadata.get_instance_metadata_defaults,
    "EnableEbsEncryptionByDefault": volume_defaults.enable_ebs_encryption_by_default,
    "DisableEbsEncryptionByDefault": volume_defaults.disable_ebs_encryption_by_default,
    "GetEbsEncryptionByDefault": volume_defaults.get_ebs_encryption_by_default,
    "ModifyEbsDefaultKmsKeyId": volume_defaults.modify_ebs_default_kms_key_id,
    "ResetEbsDefaultKmsKeyId": volume_defaults.reset_ebs_default_kms_key_id,
    "GetEbsDefaultKmsKeyId": volume_defaults.get_ebs_default_kms_key_id,
    "DescribeInstanceTypes": types.describe_instance_types,
    "DescribeInstanceTypeOfferings": types.describe_instance_type_offerings,
    "DescribeSpotPriceHistory": types.describe_spot_price_history,
    "CreatePlacementGroup": resources.create_placement_group,
    "DescribePlacementGroups": resources.describe_placement_groups,
    "DeletePlacementGroup": resources.delete_placement_group,
    "CreateTags": resources.create_tags,
    "DeleteTags": resources.delete_tags,
    "DescribeTags": resources.describe_tags,
}

# What a dry run does of an operation, after the caller was authorized. Of others it looks at nothing else.
DRY_RUNS: Final[Mapping[str, Callable[[World, dict[str, Any]], object]]] = {
    "CreateFleet": fleet_request.parse,
    "RunInstances": instances.check_run,
    "CreateLaunchTemplate": templates.check_new,
}
