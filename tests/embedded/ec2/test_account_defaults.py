"""What an account sets for all its instances: metadata options, encryption of volumes."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from lab.embedded.ec2.api import keys
from lab.worlds.cloud import Cloud, refused

KEY = "arn:aws:kms:us-east-1:123456789012:key/1234"


def tagged(key: str) -> dict[str, Any]:
    return {
        "TagSpecifications": [
            {"ResourceType": "instance", "Tags": [{"Key": key, "Value": "steady"}]}
        ]
    }


@pytest.mark.parametrize("key", ["karpenter.sh/nodepool", "two words", "_index", ".."])
def test_tags_that_metadata_cannot_show_are_refused_where_the_account_shows_tags(
    cloud: Cloud, key: str
) -> None:
    cloud.run(**tagged(key))
    cloud.ec2.modify_instance_metadata_defaults(InstanceMetadataTags="enabled")
    with refused("InvalidParameterValue"):
        cloud.run(**tagged(key))
    cloud.run(**tagged("karpenter.sh:nodepool"))
    cloud.run(MetadataOptions={"InstanceMetadataTags": "disabled"}, **tagged(key))


def test_what_a_launch_leaves_open_is_the_accounts(cloud: Cloud) -> None:
    cloud.ec2.modify_instance_metadata_defaults(
        HttpTokens="required", HttpPutResponseHopLimit=1
    )
    account = cloud.ec2.get_instance_metadata_defaults()["AccountLevel"]
    assert account == {
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 1,
        "ManagedBy": "account",
    }
    (plain,) = cloud.run()
    (own,) = cloud.run(MetadataOptions={"HttpTokens": "optional"})
    assert cloud.instance(plain)["MetadataOptions"]["HttpTokens"] == "required"
    assert cloud.instance(own)["MetadataOptions"]["HttpTokens"] == "optional"
    cloud.ec2.modify_instance_metadata_defaults(
        HttpTokens="no-preference", HttpPutResponseHopLimit=-1
    )
    assert cloud.ec2.get_instance_metadata_defaults()["AccountLevel"] == {
        "ManagedBy": "account"
    }


def test_volumes_are_encrypted_with_the_accounts_key_which_must_let_the_caller(
    cloud: Cloud,
) -> None:
    cloud.ec2.modify_ebs_default_kms_key_id(KmsKeyId=KEY)
    assert cloud.ec2.get_ebs_default_kms_key_id()["KmsKeyId"] == KEY
    token = keys.REFUSED.set({KEY: keys.NOT_ALLOWED})
    try:
        (plain,) = cloud.run()
        cloud.ec2.enable_ebs_encryption_by_default()
        (encrypted,) = cloud.run()
        (own_key,) = cloud.run(
            BlockDeviceMappings=[
                {"DeviceName": "/dev/xvda", "Ebs": {"KmsKeyId": "another"}}
            ]
        )
        cloud.advance(seconds=5)
    finally:
        keys.REFUSED.reset(token)
    assert cloud.instance(plain)["State"]["Name"] == "running"
    assert cloud.instance(own_key)["State"]["Name"] == "running"
    assert cloud.instance(encrypted)["State"]["Name"] == "terminated"
    assert cloud.instance(encrypted)["StateReason"]["Code"] == "Client.InternalError"
    cloud.ec2.reset_ebs_default_kms_key_id()
    assert cloud.ec2.get_ebs_default_kms_key_id()["KmsKeyId"].endswith("alias/aws/ebs")


def test_a_root_volume_is_at_least_as_large_as_the_image(cloud: Cloud) -> None:
    with pytest.raises(ClientError, match=r"InvalidBlockDeviceMapping.*expect size >= 8GB"):
        cloud.run(
            BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 4}}]
        )
    assert cloud.run(
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8}}]
    )
