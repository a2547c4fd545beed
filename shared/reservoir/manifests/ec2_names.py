"""Names of EC2, written by ``python docs/generate.py`` from the packages that tests run on."""

from typing import Final

# The sizes of each family of instance types.
SIZES: Final = {
    "a1": "2xlarge 4xlarge large medium metal xlarge",
    "c1": "medium xlarge",
    "c3": "2xlarge 4xlarge 8xlarge large xlarge",
    "c4": "2xlarge 4xlarge 8xlarge large xlarge",
    "c5": "12xlarge 18xlarge 24xlarge 2xlarge 4xlarge 9xlarge large metal xlarge",
    "c5a": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "c5ad": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "c5d": "12xlarge 18xlarge 24xlarge 2xlarge 4xlarge 9xlarge large metal xlarge",
    "c5n": "18xlarge 2xlarge 4xlarge 9xlarge large metal xlarge",
    "c6a": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge large metal xlarge",
    "c6g": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "c6gd": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "c6gn": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium xlarge",
    "c6i": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "c6id": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "c6in": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "c7a": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "c7g": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "c7gd": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "c7gn": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "c7i-flex": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "c7i": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large metal-24xl metal-48xl xlarge",
    "c8a": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "c8g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "c8gb": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "c8gd": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "c8gn": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "c8i-flex": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "c8i": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "c8ib": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "c8id": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "c8in": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "c8ine": "12xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "c9g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "c9gd": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "d2": "2xlarge 4xlarge 8xlarge xlarge",
    "d3": "2xlarge 4xlarge 8xlarge xlarge",
    "d3en": "12xlarge 2xlarge 4xlarge 6xlarge 8xlarge xlarge",
    "dl2q": "24xlarge",
    "f2": "12xlarge 48xlarge 6xlarge",
    "g4dn": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge metal xlarge",
    "g5": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge",
    "g5g": "16xlarge 2xlarge 4xlarge 8xlarge metal xlarge",
    "g6": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge",
    "g6e": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge xlarge",
    "g6f": "2xlarge 4xlarge large xlarge",
    "g7": "12xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge",
    "g7e": "12xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge",
    "gr6": "4xlarge 8xlarge",
    "gr6f": "4xlarge",
    "h1": "16xlarge 2xlarge 4xlarge 8xlarge",
    "hpc6a": "48xlarge",
    "hpc6id": "32xlarge",
    "hpc7a": "12xlarge 24xlarge 48xlarge 96xlarge",
    "hpc7g": "16xlarge 4xlarge 8xlarge",
    "hpc8a": "96xlarge",
    "i2": "2xlarge 4xlarge 8xlarge xlarge",
    "i3": "16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "i3en": "12xlarge 24xlarge 2xlarge 3xlarge 6xlarge large metal xlarge",
    "i4g": "16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "i4i": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "i7i": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large metal-24xl metal-48xl xlarge",
    "i7ie": "12xlarge 18xlarge 24xlarge 2xlarge 3xlarge 48xlarge 6xlarge large metal-24xl metal-48xl xlarge",
    "i8g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large metal-24xl metal-48xl xlarge",
    "i8ge": "12xlarge 18xlarge 24xlarge 2xlarge 3xlarge 48xlarge 6xlarge large metal-24xl metal-48xl xlarge",
    "im4gn": "16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "inf1": "24xlarge 2xlarge 6xlarge xlarge",
    "inf2": "24xlarge 48xlarge 8xlarge xlarge",
    "is4gen": "2xlarge 4xlarge 8xlarge large medium xlarge",
    "m1": "large medium small xlarge",
    "m2": "2xlarge 4xlarge xlarge",
    "m3": "2xlarge large medium xlarge",
    "m4": "10xlarge 16xlarge 2xlarge 4xlarge large xlarge",
    "m5": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "m5a": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "m5ad": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "m5d": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "m5dn": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "m5n": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "m5zn": "12xlarge 2xlarge 3xlarge 6xlarge large metal xlarge",
    "m6a": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge large metal xlarge",
    "m6g": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "m6gd": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "m6i": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "m6id": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "m6idn": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "m6in": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "m7a": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "m7g": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "m7gd": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "m7i-flex": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "m7i": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large metal-24xl metal-48xl xlarge",
    "m8a": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "m8azn": "12xlarge 24xlarge 3xlarge 6xlarge large medium metal-12xl metal-24xl xlarge",
    "m8g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "m8gb": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "m8gd": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "m8gn": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "m8i-flex": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "m8i": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "m8ib": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "m8id": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "m8idb": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "m8idn": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "m8in": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "m8ine": "12xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "m9g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "m9gd": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "mac-m3ultra": "metal",
    "mac-m4": "metal",
    "mac-m4max": "metal",
    "mac-m4pro": "metal",
    "mac1": "metal",
    "mac2-m1ultra": "metal",
    "mac2-m2": "metal",
    "mac2-m2pro": "metal",
    "mac2": "metal",
    "p3dn": "24xlarge",
    "p4d": "24xlarge",
    "p4de": "24xlarge",
    "p5": "48xlarge 4xlarge",
    "p5e": "48xlarge",
    "p5en": "48xlarge",
    "p6-b200": "48xlarge",
    "p6-b300": "48xlarge",
    "r3": "2xlarge 4xlarge 8xlarge large xlarge",
    "r4": "16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "r5": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "r5a": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "r5ad": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "r5b": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "r5d": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "r5dn": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "r5n": "12xlarge 16xlarge 24xlarge 2xlarge 4xlarge 8xlarge large metal xlarge",
    "r6a": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge large metal xlarge",
    "r6g": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "r6gd": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "r6i": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "r6id": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "r6idn": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "r6in": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal xlarge",
    "r7a": "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "r7g": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "r7gd": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "r7i": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large metal-24xl metal-48xl xlarge",
    "r7iz": "12xlarge 16xlarge 2xlarge 32xlarge 4xlarge 8xlarge large metal-16xl metal-32xl xlarge",
    "r8a": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "r8g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "r8gb": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "r8gd": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "r8gn": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "r8i-flex": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large xlarge",
    "r8i": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "r8ib": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "r8id": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "r8idb": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "r8idn": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "r8in": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 8xlarge 96xlarge large metal-48xl metal-96xl "
        "xlarge"
    ),
    "r9g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "r9gd": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-48xl xlarge",
    "t1": "micro",
    "t2": "2xlarge large medium micro nano small xlarge",
    "t3": "2xlarge large medium micro nano small xlarge",
    "t3a": "2xlarge large medium micro nano small xlarge",
    "t4g": "2xlarge large medium micro nano small xlarge",
    "t8i": "medium micro nano small",
    "trn1": "2xlarge 32xlarge",
    "trn1n": "32xlarge",
    "trn2": "3xlarge 48xlarge",
    "trn2u": "48xlarge",
    "u-3tb1": "56xlarge",
    "u-6tb1": "112xlarge 56xlarge",
    "u7i-12tb": "224xlarge",
    "u7i-6tb": "112xlarge",
    "u7i-8tb": "112xlarge",
    "u7in-16tb": "224xlarge",
    "u7in-24tb": "224xlarge",
    "u7in-32tb": "224xlarge",
    "vt1": "24xlarge 3xlarge 6xlarge",
    "x1": "16xlarge 32xlarge",
    "x1e": "16xlarge 2xlarge 32xlarge 4xlarge 8xlarge xlarge",
    "x2gd": "12xlarge 16xlarge 2xlarge 4xlarge 8xlarge large medium metal xlarge",
    "x2idn": "16xlarge 24xlarge 32xlarge metal",
    "x2iedn": "16xlarge 24xlarge 2xlarge 32xlarge 4xlarge 8xlarge metal xlarge",
    "x2iezn": "12xlarge 2xlarge 4xlarge 6xlarge 8xlarge metal",
    "x8aedz": "12xlarge 24xlarge 3xlarge 6xlarge large metal-12xl metal-24xl xlarge",
    "x8g": "12xlarge 16xlarge 24xlarge 2xlarge 48xlarge 4xlarge 8xlarge large medium metal-24xl metal-48xl xlarge",
    "x8i": (
        "12xlarge 16xlarge 24xlarge 2xlarge 32xlarge 48xlarge 4xlarge 64xlarge 8xlarge 96xlarge large metal-48xl "
        "metal-96xl xlarge"
    ),
    "z1d": "12xlarge 2xlarge 3xlarge 6xlarge large metal xlarge",
}
REGIONS: Final = (
    "af-south-1",
    "ap-east-1",
    "ap-east-2",
    "ap-northeast-1",
    "ap-northeast-2",
    "ap-northeast-3",
    "ap-south-1",
    "ap-south-2",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "ap-southeast-5",
    "ap-southeast-6",
    "ap-southeast-7",
    "ca-central-1",
    "ca-west-1",
    "eu-central-1",
    "eu-central-2",
    "eu-north-1",
    "eu-south-1",
    "eu-south-2",
    "eu-west-1",
    "eu-west-2",
    "eu-west-3",
    "il-central-1",
    "me-central-1",
    "me-south-1",
    "mx-central-1",
    "sa-east-1",
    "us-east-1",
    "us-east-2",
    "us-west-1",
    "us-west-2",
)
